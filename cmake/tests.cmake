# SPDX-License-Identifier: Apache-2.0
# Every *_test.cc and every ops/<name>/test.cc is one test, run by its name in tests/; every
# *_bench.cc is a program.
set(ANYOP_TESTS_JOINED 8 CACHE STRING "So many test files are compiled as one; 1 while writing one")
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
include(${CMAKE_CURRENT_LIST_DIR}/far.cmake)
# The main() of tests that call no operators' kernels.
if(NOT ANYOP_TEST_PROGRAMS)
  add_library(anyop_plain_main STATIC optest/gtest/plain_main.cc optest/gtest/chosen_tests.cc)
  target_include_directories(anyop_plain_main PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(anyop_plain_main PUBLIC GTest::gtest)
endif()

# anyop_run_test(name label): lets ctest run tests/<name>, of this build or of ANYOP_TEST_PROGRAMS,
# by the command `test_launcher` if that is set.
function(anyop_run_test name label)
  set(arguments "")
  if(label STREQUAL "ops" AND ANYOP_EXHAUSTIVE)
    set(arguments --exhaustive)
  endif()
  if(ANYOP_TEST_PROGRAMS)
    set(command ${CMAKE_COMMAND} -E env "LD_PRELOAD=${ANYOP_PRELOAD}"
                LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/lib ${ANYOP_TEST_PROGRAMS}/${name})
  else()
    set(command ${CMAKE_CROSSCOMPILING_EMULATOR} ${test_launcher} ${tests_dir}/${name})
  endif()
  add_test(NAME ${name} COMMAND ${command} ${arguments})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 900)
endfunction()

# anyop_test_program(name label library source...): a program of tests with the main() of a library.
function(anyop_test_program name label library)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE anyop ${library} GTest::gtest Threads::Threads
                                        ${CMAKE_DL_LIBS})
  target_compile_definitions(${name} PRIVATE ${test_definitions})
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    # It runs once: compiling is most of its time. At -O1 GCC 12 sees overflows that are not there.
    target_compile_options(${name} PRIVATE -O1 -Wno-array-bounds -Wno-stringop-overflow)
  endif()
  set(headers <gtest/gtest.h>)
  if(library STREQUAL "anyop_optest")
    list(APPEND headers <optest/optest.h>)
  endif()
  get_property(first GLOBAL PROPERTY ANYOP_FIRST_WITH_${library})
  if(label STREQUAL "simd")  # each of these has flags of its own
  elseif(first)
    target_precompile_headers(${name} REUSE_FROM ${first})
  else()
    anyop_precompile(${name} ${headers})
    set_property(GLOBAL PROPERTY ANYOP_FIRST_WITH_${library} ${name})
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${tests_dir})
  if(TARGET anyop_testing)
    add_dependencies(${name} anyop_testing anyop_far anyop_ascend_device anyop_npu_libraries
                             anyop_cuda_fake toy)
  endif()
  if(label STREQUAL "optest")
    add_dependencies(${name} anyop_optest_testing anyop_optest_testing_reference)
  endif()
  if(NOT label MATCHES "platform|runtime|graph|hosting|signature")
    add_dependencies(${name} anyop_ops anyop_ops_reference)
  endif()
  if(label STREQUAL "ops" AND TARGET anyop_ops_ascend)
    add_dependencies(${name} anyop_ops_ascend anyop_ops_ascend_checked)
  endif()
  if(label MATCHES "platform|runtime|graph|hosting")
    add_dependencies(runtime_tests ${name})
  elseif(label MATCHES "ops|simd")
    add_dependencies(kernel_tests ${name})
  endif()
endfunction()

# anyop_add_test(name label library source): a test that is a program of its own.
function(anyop_add_test name label library source)
  anyop_run_test(${name} ${label})
  if(NOT ANYOP_TEST_PROGRAMS)
    anyop_test_program(${name} ${label} ${library} ${source})
  endif()
endfunction()

# anyop_add_joined_test(group name label source): a test whose program anyop_join_tests makes.
function(anyop_add_joined_test group name label source)
  anyop_run_test(${name} ${label})
  set_property(GLOBAL APPEND PROPERTY ANYOP_JOINED_${group}_NAMES ${name})
  set_property(GLOBAL APPEND PROPERTY ANYOP_JOINED_${group}_SOURCES ${source})
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE path)
  set_property(GLOBAL APPEND_STRING PROPERTY ANYOP_JOINED_TABLE "    {\"${name}\", \"${path}\"},\n")
endfunction()

# anyop_join_tests(group library): the programs of a group's tests, and their links.
function(anyop_join_tests group library)
  get_property(names GLOBAL PROPERTY ANYOP_JOINED_${group}_NAMES)
  get_property(sources GLOBAL PROPERTY ANYOP_JOINED_${group}_SOURCES)
  if(ANYOP_TEST_PROGRAMS OR NOT sources)
    return()
  endif()
  list(LENGTH sources count)
  math(EXPR last "${count} - 1")
  foreach(first RANGE 0 ${last} ${ANYOP_TESTS_JOINED})
    list(SUBLIST sources ${first} ${ANYOP_TESTS_JOINED} own_sources)
    list(SUBLIST names ${first} ${ANYOP_TESTS_JOINED} own_names)
    set(program joined_${group}_${first})
    anyop_test_program(${program} ${group} ${library} ${own_sources}
                       $<TARGET_OBJECTS:anyop_joined_files>)
    anyop_join(${program} ${ANYOP_TESTS_JOINED})
    if(own_sources MATCHES "devices/(ascend|npu)/")  # they call operators
      add_dependencies(${program} anyop_ops)
    endif()
    foreach(name ${own_names})
      add_custom_command(TARGET ${program} POST_BUILD
                         COMMAND ${CMAKE_COMMAND} -E create_symlink ${program} ${tests_dir}/${name})
      add_custom_target(${name} DEPENDS ${program})
    endforeach()
  endforeach()
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

add_custom_target(runtime_tests)  # what the thread sanitizer is for
add_custom_target(kernel_tests)   # what another instruction set is for
if(NOT ANYOP_TEST_PROGRAMS)
  set(joined_files ${CMAKE_BINARY_DIR}/joined_files.cc)
  add_library(anyop_joined_files OBJECT ${joined_files})
  target_include_directories(anyop_joined_files PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
endif()

file(GLOB core_tests CONFIGURE_DEPENDS src/*/*_test.cc src/*/*/*_test.cc tests/*_test.cc)
foreach(source ${core_tests})
  get_filename_component(stem ${source} NAME_WE)
  anyop_layer_of(${source} label)
  if(stem MATCHES "^(call|cpu|executable|random_graphs|sanitizers|torch_schema)_test$")
    # They replace operator new, read ANYOP_ISA before all others, have options, end by a
    # sanitizer's hand, have a second file.
    anyop_add_test(${stem} ${label} anyop_plain_main ${source})
  elseif(label MATCHES "platform|runtime|graph|hosting")
    anyop_add_joined_test(runtime ${stem} ${label} ${source})
  else()
    anyop_add_joined_test(core ${stem} ${label} ${source})
  endif()
endforeach()
file(GLOB device_tests CONFIGURE_DEPENDS devices/*/*_test.cc devices/*/testing/*_test.cc)
foreach(source ${device_tests})
  get_filename_component(stem ${source} NAME_WE)
  anyop_add_joined_test(runtime ${stem} devices ${source})
endforeach()
anyop_join_tests(runtime anyop_plain_main)
anyop_join_tests(core anyop_plain_main)
if(TARGET torch_schema_test)  # of a file of the bindings that needs no Python
  target_sources(torch_schema_test PRIVATE bindings/torch_unlinked/torch_schema.cc)
  target_include_directories(torch_schema_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
endif()

file(GLOB optest_tests CONFIGURE_DEPENDS optest/*_test.cc optest/gtest/*_test.cc)
foreach(source ${optest_tests})
  get_filename_component(stem ${source} NAME_WE)
  anyop_add_joined_test(optest ${stem} optest ${source})
endforeach()
anyop_join_tests(optest anyop_optest)

file(GLOB op_tests CONFIGURE_DEPENDS ops/*/test.cc ops/*/*_test.cc)
foreach(source ${op_tests})
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(name ${folder} NAME)
  if(ANYOP_OPERATORS AND NOT name IN_LIST ANYOP_OPERATORS)
    continue()
  endif()
  get_filename_component(stem ${source} NAME_WE)
  anyop_add_joined_test(ops ${name}_${stem} ops ${source})
  if(EXISTS ${folder}/ascend.cpp AND stem STREQUAL "test" AND TARGET anyop_ops_ascend)
    # The kernels in AscendC, on the virtual device in place of the device for tests. A test whose
    # kernels did not run has no line that says how often they did.
    add_test(NAME ${name}_ascend COMMAND ${tests_dir}/${name}_test --kernel=ascend
                                         --gtest_filter=*.MatchesItsReference)
    set(ran "ascend_checked on ascend:0: [0-9].*ascend_host on ascend:0: [0-9]")
    set_tests_properties(
      ${name}_ascend
      PROPERTIES LABELS ops TIMEOUT 900 PASS_REGULAR_EXPRESSION "${ran}" FAIL_REGULAR_EXPRESSION
                 "FAILED" ENVIRONMENT ANYOP_LOAD=${CMAKE_BINARY_DIR}/lib/anyop_ascend_device.so)
  endif()
endforeach()
anyop_join_tests(ops anyop_optest)

if(NOT ANYOP_TEST_PROGRAMS)
  get_property(table GLOBAL PROPERTY ANYOP_JOINED_TABLE)
  file(CONFIGURE OUTPUT ${joined_files} @ONLY CONTENT [=[
#include "optest/gtest/chosen_tests.h"
namespace {
constexpr anyop::optest::TestFile kFiles[] = {
@table@};
const anyop::optest::JoinedFiles joined(kFiles);
}  // namespace
]=])
endif()

# simd.h and its storage of bytes are tested once per instruction set. Files without one are NEON on
# Arm, and AMX has no vectors of its own.
if(NOT ANYOP_SANITIZE)
  set(simd_isas portable ${ANYOP_ISAS})
  list(REMOVE_ITEM simd_isas amx_bf16)
  if("neon" IN_LIST simd_isas)
    list(REMOVE_ITEM simd_isas portable)
  endif()
  add_executable(run_where_it_can tests/isa/run_where_it_can.cc)
  target_link_libraries(run_where_it_can PRIVATE anyop)
  target_include_directories(run_where_it_can PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src)
  add_dependencies(kernel_tests run_where_it_can)
  foreach(isa ${simd_isas})
    set(test_launcher "")
    if(ANYOP_NEEDS_${isa} AND NOT CMAKE_CROSSCOMPILING)
      set(test_launcher $<TARGET_FILE:run_where_it_can> ${ANYOP_NEEDS_${isa}})
    endif()
    foreach(part simd bytes)
      set(test ${part}_${isa}_test)
      anyop_add_test(${test} simd anyop_plain_main tests/isa/${part}_test.cc)
      target_compile_options(${test} PRIVATE ${ANYOP_FLAGS_${isa}} -ffp-contract=off
                                             -fno-math-errno -fno-trapping-math)
      target_compile_definitions(${test} PRIVATE ANYOP_ISA=${isa}
                                                 "ANYOP_NEEDS=\"${ANYOP_NEEDS_${isa}}\"")
    endforeach()
  endforeach()
  unset(test_launcher)
endif()

# The examples of the README.
anyop_add_library(my_ops NAME my_ops FOLDER ${CMAKE_CURRENT_SOURCE_DIR}/examples/my_ops/ops
                  VERSION 0.1.0)
set_target_properties(my_ops my_ops_reference PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${tests_dir})
if(ANYOP_TEST_PROGRAMS)
  return()
endif()
foreach(example hello graph virtual_npu)
  add_executable(example_${example} examples/${example}.cc)
  target_link_libraries(example_${example} PRIVATE anyop)
  set_target_properties(example_${example} PROPERTIES OUTPUT_NAME ${example}
                                                      RUNTIME_OUTPUT_DIRECTORY ${tests_dir})
  add_dependencies(example_${example} my_ops anyop_ops anyop_ascend_device)
endforeach()

if(benchmark_FOUND AND NOT ANYOP_SANITIZE)
  file(GLOB benches CONFIGURE_DEPENDS src/*/*_bench.cc src/*/*/*_bench.cc ops/*/bench.cc)
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
anyop_must_not_compile(check_reads_a_shape "no member named [^ ]*base")
anyop_must_not_compile(signature_is_wrong "kUnknownName")
