# SPDX-License-Identifier: Apache-2.0
# What operators' tests are written with. The sources of the program that `anyop test` runs on a
# package's operators are installed by python.cmake, and built on first use (python/anyop/testing.py).
if(CMAKE_CROSSCOMPILING)
  # Debian has libraries for its own machine only, and the sources in package googletest.
  if(NOT EXISTS /usr/src/googletest/CMakeLists.txt)
    message(FATAL_ERROR "/usr/src/googletest is missing. Try: apt-get install googletest")
  endif()
  set(BUILD_GMOCK OFF CACHE BOOL "")
  set(INSTALL_GTEST OFF CACHE BOOL "")
  add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
else()
  find_package(GTest REQUIRED)
endif()
set(test_definitions
    ANYOP_SOURCE_DIR="${CMAKE_CURRENT_SOURCE_DIR}" _GLIBCXX_ASSERTIONS)
if(CMAKE_CROSSCOMPILING_EMULATOR)
  list(APPEND test_definitions ANYOP_EMULATED)
endif()

file(GLOB optest_sources CONFIGURE_DEPENDS optest/*.cc optest/gtest/*.cc)
list(FILTER optest_sources EXCLUDE REGEX "(_test|plain_main|package_main)\\.cc$")
if(optest_sources AND NOT ANYOP_TEST_PROGRAMS)
  add_library(anyop_optest STATIC ${optest_sources})
  target_include_directories(anyop_optest PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(anyop_optest PUBLIC anyop GTest::gtest)
  target_compile_definitions(anyop_optest PUBLIC ${test_definitions})
  anyop_join(anyop_optest 6)
endif()
# Nobody links it here: so that its warnings are seen.
add_library(anyop_optest_package OBJECT optest/package_main.cc)
target_include_directories(anyop_optest_package PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(anyop_optest_package PRIVATE anyop)
