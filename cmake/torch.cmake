# SPDX-License-Identifier: Apache-2.0
# The adapter of PyTorch, for the torch that the configuring Python has. Where there is none, the
# package builds it on first use (python/anyop/hosting/build.py), from what is installed here.
option(ANYOP_BUILD_TORCH "Build the PyTorch adapter if the configuring Python has torch" ON)
install(DIRECTORY bindings/torch bindings/vllm DESTINATION anyop/bindings
        FILES_MATCHING PATTERN "*.h" PATTERN "*.cc")
install(DIRECTORY devices/npu/torch DESTINATION anyop/devices/npu
        FILES_MATCHING PATTERN "*.h" PATTERN "*.cc")
install(FILES devices/npu/aclnn/objects.h devices/npu/aclnn/operator.h devices/npu/aclnn/types.h
        DESTINATION anyop/devices/npu/aclnn)
install(DIRECTORY devices/virtual/torch DESTINATION anyop/devices/virtual
        FILES_MATCHING PATTERN "*.h" PATTERN "*.cc")
install(DIRECTORY src DESTINATION anyop FILES_MATCHING PATTERN "*.h"
                                                       PATTERN "testing" EXCLUDE)
install(FILES cmake/exports/adapter.map DESTINATION anyop/cmake/exports)
if(NOT ANYOP_BUILD_TORCH OR ANYOP_SANITIZE)
  return()
endif()
execute_process(
  COMMAND ${Python_EXECUTABLE} -c
          "import os, torch; print(os.path.dirname(torch.__file__), torch.__version__, \
int(torch.compiled_with_cxx11_abi()), sep=';', end='')"
  OUTPUT_VARIABLE torch_found ERROR_QUIET RESULT_VARIABLE torch_is_missing)
if(torch_is_missing)
  message(STATUS "No torch in ${Python_EXECUTABLE}: its adapter will be built on first use")
  return()
endif()
list(GET torch_found 0 torch_folder)
list(GET torch_found 1 torch_version)
list(GET torch_found 2 torch_new_abi)
message(STATUS "Building the adapter of torch ${torch_version}")

file(GLOB torch_sources CONFIGURE_DEPENDS bindings/torch/*.cc bindings/vllm/*.cc)
add_library(torch_adapter MODULE ${torch_sources})
# torch's headers take most of the time: they are read once.
set_target_properties(torch_adapter PROPERTIES
  UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0 PREFIX "" OUTPUT_NAME "torch_adapter-${torch_version}"
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib INSTALL_RPATH "$ORIGIN")
target_include_directories(torch_adapter SYSTEM PRIVATE
  ${torch_folder}/include ${torch_folder}/include/torch/csrc/api/include)
target_include_directories(torch_adapter PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(torch_adapter PRIVATE _GLIBCXX_USE_CXX11_ABI=${torch_new_abi})
target_compile_options(torch_adapter PRIVATE -fvisibility=hidden ${ANYOP_NO_SHADOWS})
anyop_harden(torch_adapter)
anyop_export(torch_adapter adapter)
target_link_libraries(torch_adapter PRIVATE
  anyop ${torch_folder}/lib/libtorch_cpu.so ${torch_folder}/lib/libc10.so)
install(TARGETS torch_adapter LIBRARY DESTINATION anyop)
