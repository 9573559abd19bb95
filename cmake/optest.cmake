# SPDX-License-Identifier: Apache-2.0
# What operators' tests are written with, and the program anyop-optest, which `anyop test` runs on a
# package's operators.
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

file(GLOB optest_sources CONFIGURE_DEPENDS optest/*.cc)
list(FILTER optest_sources EXCLUDE REGEX "(_test|plain_main)\\.cc$")
if(optest_sources AND NOT ANYOP_TEST_PROGRAMS)
  add_library(anyop_optest STATIC ${optest_sources})
  target_include_directories(anyop_optest PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(anyop_optest PUBLIC anyop GTest::gtest)
  target_compile_definitions(anyop_optest PUBLIC ${test_definitions})
  anyop_join(anyop_optest 6)
endif()
if(TARGET anyop_optest AND NOT CMAKE_CROSSCOMPILING AND NOT ANYOP_SANITIZE)
  # main() is in the library.
  add_executable(anyop_optest_program $<TARGET_OBJECTS:anyop_optest>)
  target_link_libraries(anyop_optest_program PRIVATE anyop GTest::gtest)
  set_target_properties(anyop_optest_program
                        PROPERTIES OUTPUT_NAME anyop-optest LINKER_LANGUAGE CXX
                                   INSTALL_RPATH "$ORIGIN/..;$ORIGIN/../lib"
                                   RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  anyop_harden(anyop_optest_program)
  install(TARGETS anyop_optest_program RUNTIME DESTINATION anyop/bin)
endif()
