# SPDX-License-Identifier: Apache-2.0
# Builds for 64-bit Arm on another machine and runs its tests under qemu (Debian's packages
# g++-aarch64-linux-gnu, qemu-user, googletest):
#
#   cmake -B build/aarch64 -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake
#         -DANYOP_BUILD_TESTS=ON -DANYOP_BUILD_PYTHON=OFF
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)  # googletest asks for one
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu cortex-a72 -L /usr/aarch64-linux-gnu)

# Libraries and headers of the target only, programs of this machine.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# Headers without machine code serve any machine; their folder has others beside them that do not.
get_property(is_probe GLOBAL PROPERTY IN_TRY_COMPILE)
if(NOT is_probe AND EXISTS /usr/include/nlohmann/json.hpp)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/any_machine)
  file(CREATE_LINK /usr/include/nlohmann ${CMAKE_BINARY_DIR}/any_machine/nlohmann SYMBOLIC)
  set(NLOHMANN_JSON ${CMAKE_BINARY_DIR}/any_machine CACHE PATH "Where nlohmann/json.hpp is")
endif()
