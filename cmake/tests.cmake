# SPDX-License-Identifier: Apache-2.0
# Every *_test.cc and every ops/<name>/test.cc is one program; every *_bench.cc too.
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
find_package(benchmark QUIET)
set(tests_dir ${CMAKE_BINARY_DIR}/tests)

# A small operator library for the runtime's own tests.
file(GLOB_RECURSE testing_sources CONFIGURE_DEPENDS src/runtime/testing/*.cc)
if(testing_sources)
  anyop_add_library(anyop_testing NAME testing FOLDER
                    ${CMAKE_CURRENT_SOURCE_DIR}/src/runtime/testing)
  set_target_properties(anyop_testing PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${tests_dir})
endif()
file(GLOB_RECURSE testing_sources CONFIGURE_DEPENDS optest/testing/*.cc)
if(testing_sources)
  anyop_add_library(anyop_optest_testing NAME broken FOLDER
                    ${CMAKE_CURRENT_SOURCE_DIR}/optest/testing)
  set_target_properties(anyop_optest_testing PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${tests_dir})
  if(TARGET anyop_optest_testing_reference)
    set_target_properties(anyop_optest_testing_reference PROPERTIES LIBRARY_OUTPUT_DIRECTORY
                                                                    ${tests_dir})
  endif()
endif()
set(test_definitions
    ANYOP_TEST_LIBRARY="$<TARGET_FILE:anyop_ops>"
    ANYOP_TEST_REFERENCE="$<TARGET_FILE:anyop_ops_reference>"
    ANYOP_TESTING_DIR="${tests_dir}" ANYOP_SOURCE_DIR="${CMAKE_CURRENT_SOURCE_DIR}")
if(CMAKE_CROSSCOMPILING_EMULATOR)
  list(APPEND test_definitions ANYOP_EMULATED)
endif()

file(GLOB optest_sources CONFIGURE_DEPENDS optest/*.cc)
list(FILTER optest_sources EXCLUDE REGEX "_test\\.cc$")
if(optest_sources)
  add_library(anyop_optest STATIC ${optest_sources})
  target_include_directories(anyop_optest PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(anyop_optest PUBLIC anyop GTest::gtest)
  target_compile_definitions(anyop_optest PUBLIC ${test_definitions})
endif()

function(anyop_add_test name label source)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE anyop GTest::gtest Threads::Threads ${CMAKE_DL_LIBS} ${ARGN})
  target_compile_definitions(${name} PRIVATE ${test_definitions} _GLIBCXX_ASSERTIONS)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${tests_dir})
  if(TARGET anyop_testing)
    add_dependencies(${name} anyop_testing)
  endif()
  if(NOT label MATCHES "platform|runtime|graph|signature" OR name STREQUAL "signatures_test")
    add_dependencies(${name} anyop_ops anyop_ops_reference)
  endif()
  set(arguments "")
  if(label STREQUAL "ops" AND ANYOP_EXHAUSTIVE)
    set(arguments --exhaustive)
  endif()
  add_test(NAME ${name} COMMAND ${name} ${arguments})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 900)
endfunction()

file(GLOB core_tests CONFIGURE_DEPENDS src/*/*_test.cc tests/*_test.cc)
add_custom_target(runtime_tests)  # what the thread sanitizer is for
add_custom_target(kernel_tests)   # what another instruction set is for
foreach(source ${core_tests})
  get_filename_component(stem ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(label ${folder} NAME)
  anyop_add_test(${stem} ${label} ${source} GTest::gtest_main)
  if(label MATCHES "platform|runtime|graph")
    add_dependencies(runtime_tests ${stem})
  endif()
endforeach()

file(GLOB optest_tests CONFIGURE_DEPENDS optest/*_test.cc)
foreach(source ${optest_tests})
  get_filename_component(stem ${source} NAME_WE)
  anyop_add_test(${stem} optest ${source} anyop_optest)
  if(TARGET anyop_optest_testing)
    add_dependencies(${stem} anyop_optest_testing)
  endif()
  if(TARGET anyop_optest_testing_reference)
    add_dependencies(${stem} anyop_optest_testing_reference)
  endif()
endforeach()

if(TARGET anyop_optest)
  file(GLOB op_tests CONFIGURE_DEPENDS ops/*/test.cc ops/*/*_test.cc)
  foreach(source ${op_tests})
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(name ${folder} NAME)
    get_filename_component(stem ${source} NAME_WE)
    anyop_add_test(${name}_${stem} ops ${source} anyop_optest)
    add_dependencies(kernel_tests ${name}_${stem})
  endforeach()
endif()

# simd.h and its storage of bytes are tested once per instruction set. Files without one are NEON on
# Arm.
if(NOT ANYOP_SANITIZE)
  set(simd_isas portable ${ANYOP_ISAS})
  if("neon" IN_LIST simd_isas)
    list(REMOVE_ITEM simd_isas portable)
  endif()
  foreach(isa ${simd_isas})
    foreach(part simd bytes)
      set(test ${part}_${isa}_test)
      anyop_add_test(${test} simd tests/isa/${part}_test.cc GTest::gtest_main)
      add_dependencies(kernel_tests ${test})
      target_compile_options(${test} PRIVATE ${ANYOP_FLAGS_${isa}} -ffp-contract=off
                                             -fno-math-errno -fno-trapping-math)
      target_compile_definitions(${test} PRIVATE ANYOP_ISA=${isa}
                                                 "ANYOP_NEEDS=\"${ANYOP_NEEDS_${isa}}\"")
    endforeach()
  endforeach()
endif()

# The examples of the README.
anyop_add_library(my_ops NAME my_ops FOLDER ${CMAKE_CURRENT_SOURCE_DIR}/examples/my_ops/ops
                  VERSION 0.1.0)
set_target_properties(my_ops my_ops_reference PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${tests_dir})
foreach(example hello graph)
  add_executable(example_${example} examples/${example}.cc)
  target_link_libraries(example_${example} PRIVATE anyop)
  set_target_properties(example_${example} PROPERTIES OUTPUT_NAME ${example}
                                                      RUNTIME_OUTPUT_DIRECTORY ${tests_dir})
  add_dependencies(example_${example} my_ops anyop_ops)
endforeach()

if(benchmark_FOUND AND NOT ANYOP_SANITIZE)
  file(GLOB benches CONFIGURE_DEPENDS src/*/*_bench.cc ops/*/bench.cc)
  foreach(source ${benches})
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(name ${folder} NAME)
    get_filename_component(stem ${source} NAME_WE)
    set(target ${name}_${stem})
    add_executable(${target} ${source})
    target_link_libraries(${target} PRIVATE anyop benchmark::benchmark Threads::Threads
                                            ${CMAKE_DL_LIBS})
    target_compile_definitions(${target} PRIVATE ${test_definitions})
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${tests_dir})
  endforeach()
endif()

# Code that must not compile, each for the reason that the compiler has to give.
set(compile_only ${CMAKE_CXX_COMPILER} -std=c++20 -fsyntax-only
                 -I${CMAKE_CURRENT_SOURCE_DIR}/include)
set(compile_dir ${CMAKE_CURRENT_SOURCE_DIR}/tests/compile)
add_test(NAME compile_fits COMMAND ${compile_only} ${compile_dir}/fits.cc)
function(anyop_must_not_compile name reason)
  add_test(NAME compile_${name} COMMAND ${compile_only} ${compile_dir}/${name}.cc)
  set_tests_properties(compile_${name} PROPERTIES PASS_REGULAR_EXPRESSION "${reason}")
endfunction()
anyop_must_not_compile(kernel_does_not_fit "a_kernel_does_not_fit_the_signature")
anyop_must_not_compile(check_does_not_fit "the_check_does_not_fit_the_signature")
anyop_must_not_compile(signature_is_wrong "kUnknownName")
