# SPDX-License-Identifier: Apache-2.0
# The runtime of the AscendC dialect (ascend/), which files of kernels are linked with. It needs
# nothing of libanyop but the header of a device's library.
file(GLOB ascend_sources CONFIGURE_DEPENDS ascend/runtime/*.cc)
add_library(anyop_ascend SHARED ${ascend_sources})
target_include_directories(anyop_ascend PUBLIC ascend/include PRIVATE ascend/runtime include)
target_link_libraries(anyop_ascend PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
target_compile_options(anyop_ascend PRIVATE -fvisibility=hidden)
anyop_harden(anyop_ascend)
anyop_export(anyop_ascend ascend)
# A checked siglongjmp takes a jump from one stack to another for an error.
set_source_files_properties(ascend/runtime/faults.cc PROPERTIES COMPILE_OPTIONS -U_FORTIFY_SOURCE)
set_target_properties(anyop_ascend PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
if(ANYOP_BUILD_PYTHON)
  install(TARGETS anyop_ascend LIBRARY DESTINATION anyop)
  install(DIRECTORY ascend/include/ DESTINATION anyop/ascend/include FILES_MATCHING PATTERN "*.h")
  install(DIRECTORY ascend/home/ DESTINATION anyop/ascend/home PATTERN "__pycache__" EXCLUDE)
endif()

# anyop_ascend_test(name source...): a program of tests. Sources whose names begin with fast_ are
# built without checks.
function(anyop_ascend_test name)
  anyop_run_test(${name} ascend)
  if(ANYOP_TEST_PROGRAMS)
    return()
  endif()
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ascend/tests/ OUTPUT_VARIABLE sources)
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE ascend/tests)
  target_include_directories(${name} SYSTEM PRIVATE ${NLOHMANN_JSON})
  target_link_libraries(${name} PRIVATE anyop_ascend GTest::gtest GTest::gtest_main)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${name} PRIVATE -O1 -Wno-array-bounds -Wno-stringop-overflow)
  endif()
  foreach(source ${sources})
    if(source MATCHES "/fast_[a-z_]*\\.cc$")
      set_source_files_properties(
        ${source} PROPERTIES COMPILE_DEFINITIONS ANYOP_ASCEND_CHECKED=0
                             SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
  get_property(first GLOBAL PROPERTY ANYOP_FIRST_ASCEND_TEST)
  if(first)
    target_precompile_headers(${name} REUSE_FROM ${first})
  else()
    target_precompile_headers(${name} PRIVATE <gtest/gtest.h> <nlohmann/json.hpp>)
    set_property(GLOBAL PROPERTY ANYOP_FIRST_ASCEND_TEST ${name})
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${tests_dir})
endfunction()
function(anyop_ascend_tests)
  anyop_ascend_test(ascend_defects_test defects_test.cc race_defects.cc queue_defects.cc
                    access_defects.cc block_defects.cc use_defects.cc)
  anyop_ascend_test(ascend_orders_test orders_test.cc)
  anyop_ascend_test(ascend_instructions_test instructions_test.cc)
  anyop_ascend_test(ascend_moves_test moves_test.cc)
  anyop_ascend_test(ascend_cast_test cast_test.cc)
  anyop_ascend_test(ascend_records_test records_test.cc)
  anyop_ascend_test(ascend_runtime_test runtime_test.cc)
  anyop_ascend_test(ascend_dialect_test dialect_test.cc)
  if(TARGET ascend_dialect_test AND NOT CMAKE_CROSSCOMPILING)  # some kernels must not compile
    target_compile_definitions(
      ascend_dialect_test PRIVATE ANYOP_COMPILER="${CMAKE_CXX_COMPILER}"
                                  ANYOP_ASCEND_INCLUDE="${CMAKE_CURRENT_SOURCE_DIR}/ascend/include")
  endif()
  anyop_ascend_test(ascend_tiling_test tiling_test.cc)
  anyop_ascend_test(ascend_extended_test extended_test.cc)
  anyop_ascend_test(ascend_tensor_list_test tensor_list_test.cc)
  anyop_ascend_test(ascend_builds_test builds_test.cc fast_kernels.cc checked_kernels.cc)
  anyop_ascend_test(ascend_speed_test speed_test.cc fast_examples.cc checked_examples.cc)
  # As `anyop ascend` compiles kernels; cross compilers know no native processor.
  if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT CMAKE_CROSSCOMPILING)
    set(folder ${CMAKE_CURRENT_SOURCE_DIR}/ascend/tests)
    set_source_files_properties(${folder}/fast_examples.cc
                                PROPERTIES COMPILE_OPTIONS "-O3;-march=native")
    set_source_files_properties(
      ${folder}/checked_examples.cc PROPERTIES COMPILE_OPTIONS "-march=native"
                                               SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()
# Fibers are unknown to the thread sanitizer. Tests are added where cmake/tests.cmake has been read.
if(ANYOP_BUILD_TESTS AND NOT ANYOP_SANITIZE STREQUAL "thread")
  cmake_language(DEFER CALL anyop_ascend_tests)
endif()
