# SPDX-License-Identifier: Apache-2.0
# Every *_test.cc and every ops/<name>/test.cc is one program; every *_bench.cc too.
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
function(anyop_add_test name label source)
  set(arguments "")
  if(label STREQUAL "ops" AND ANYOP_EXHAUSTIVE)
    set(arguments --exhaustive)
  endif()
  if(ANYOP_TEST_PROGRAMS)
    add_test(NAME ${name}
             COMMAND ${CMAKE_COMMAND} -E env "LD_PRELOAD=${ANYOP_PRELOAD}"
                     LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/lib ${ANYOP_TEST_PROGRAMS}/${name}
                     ${arguments})
    set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 900)
    return()
  endif()
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE anyop GTest::gtest Threads::Threads ${CMAKE_DL_LIBS} ${ARGN})
  target_compile_definitions(${name} PRIVATE ${test_definitions})
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    # It runs once: compiling is most of its time. At -O1 GCC 12 sees overflows that are not there.
    target_compile_options(${name} PRIVATE -O1 -Wno-array-bounds -Wno-stringop-overflow)
  endif()
  get_property(first GLOBAL PROPERTY ANYOP_FIRST_TEST)
  if(label STREQUAL "simd")  # each of these has flags of its own
  elseif(first)
    target_precompile_headers(${name} REUSE_FROM ${first})
  else()
    anyop_precompile(${name} <gtest/gtest.h>)
    set_property(GLOBAL PROPERTY ANYOP_FIRST_TEST ${name})
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${tests_dir})
  if(TARGET anyop_testing)
    add_dependencies(${name} anyop_testing)
  endif()
  if(NOT label MATCHES "platform|runtime|graph|hosting|signature")
    add_dependencies(${name} anyop_ops anyop_ops_reference)
  endif()
  add_test(NAME ${name} COMMAND ${name} ${arguments})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 900)
endfunction()

# The folder below src that a file lies in, or the folder that it lies in itself.
function(anyop_layer_of source layer)
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/src
                                  OUTPUT_VARIABLE within)
  if(within MATCHES "^([a-z]+)/")
    set(${layer} ${CMAKE_MATCH_1} PARENT_SCOPE)
  else()
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET folder FILENAME name)
    set(${layer} ${name} PARENT_SCOPE)
  endif()
endfunction()

file(GLOB core_tests CONFIGURE_DEPENDS src/*/*_test.cc src/graph/*/*_test.cc tests/*_test.cc)
add_custom_target(runtime_tests)  # what the thread sanitizer is for
add_custom_target(kernel_tests)   # what another instruction set is for
foreach(source ${core_tests})
  get_filename_component(stem ${source} NAME_WE)
  anyop_layer_of(${source} label)
  anyop_add_test(${stem} ${label} ${source} GTest::gtest_main)
  if(TARGET ${stem} AND label MATCHES "platform|runtime|graph|hosting")
    add_dependencies(runtime_tests ${stem})
  endif()
endforeach()
if(TARGET torch_schema_test)  # of a file of the bindings that needs no Python
  target_sources(torch_schema_test PRIVATE bindings/torch_unlinked/torch_schema.cc)
  target_include_directories(torch_schema_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
endif()

file(GLOB optest_tests CONFIGURE_DEPENDS optest/*_test.cc)
foreach(source ${optest_tests})
  get_filename_component(stem ${source} NAME_WE)
  anyop_add_test(${stem} optest ${source} anyop_optest)
  if(TARGET ${stem})
    add_dependencies(${stem} anyop_optest_testing anyop_optest_testing_reference)
  endif()
endforeach()

if(optest_sources)
  file(GLOB op_tests CONFIGURE_DEPENDS ops/*/test.cc ops/*/*_test.cc)
  foreach(source ${op_tests})
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(name ${folder} NAME)
    get_filename_component(stem ${source} NAME_WE)
    anyop_add_test(${name}_${stem} ops ${source} anyop_optest)
    if(TARGET ${name}_${stem})
      add_dependencies(kernel_tests ${name}_${stem})
    endif()
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
if(ANYOP_TEST_PROGRAMS)
  return()
endif()
foreach(example hello graph)
  add_executable(example_${example} examples/${example}.cc)
  target_link_libraries(example_${example} PRIVATE anyop)
  set_target_properties(example_${example} PROPERTIES OUTPUT_NAME ${example}
                                                      RUNTIME_OUTPUT_DIRECTORY ${tests_dir})
  add_dependencies(example_${example} my_ops anyop_ops)
endforeach()

if(benchmark_FOUND AND NOT ANYOP_SANITIZE)
  file(GLOB benches CONFIGURE_DEPENDS src/*/*_bench.cc src/graph/*/*_bench.cc ops/*/bench.cc)
  foreach(source ${benches})
    anyop_layer_of(${source} name)
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
