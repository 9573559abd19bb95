# SPDX-License-Identifier: Apache-2.0
# The Python host, and what a wheel holds.
if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/bindings/module/module.cc)
  return()
endif()
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module NumPy)
file(GLOB python_sources CONFIGURE_DEPENDS bindings/*.cc bindings/*/*.cc)
list(FILTER python_sources EXCLUDE REGEX "/bindings/(torch|mindspore|vllm)/")  # libraries of their own
python_add_library(_anyop MODULE WITH_SOABI ${python_sources})
target_include_directories(_anyop PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(_anyop PRIVATE anyop Python::NumPy)
# Here, as several headers include <Python.h>, and the first of a file decides.
target_compile_definitions(_anyop PRIVATE PY_SSIZE_T_CLEAN)
target_compile_options(_anyop PRIVATE -fvisibility=hidden -fno-math-errno ${ANYOP_NO_SHADOWS})
anyop_harden(_anyop)
anyop_join(_anyop 12)
# It imports NumPy, which the others' macros leave out.
set_source_files_properties(bindings/module/module.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
anyop_export(_anyop python)
set_target_properties(_anyop PROPERTIES INSTALL_RPATH "$ORIGIN"
                                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

install(TARGETS anyop anyop_ops anyop_ops_reference _anyop LIBRARY DESTINATION anyop)
install(TARGETS anyop_run RUNTIME DESTINATION anyop/bin)
# What `anyop new` copies into a package, so that it builds with no anyop installed.
install(DIRECTORY include/anyop DESTINATION anyop/include FILES_MATCHING PATTERN "*.h")
install(FILES cmake/anyop.cmake cmake/anyopConfig.cmake cmake/isa.cmake DESTINATION anyop/cmake)
install(FILES tools/list_ops.py tools/check_ops.py tools/kernel_files.py
              tools/ascend_compiler.py DESTINATION anyop/tools)
# The program of `anyop test`, built on first use (python/anyop/testing.py).
install(DIRECTORY optest DESTINATION anyop FILES_MATCHING PATTERN "*.h" PATTERN "*.cc"
        PATTERN "*_test.cc" EXCLUDE PATTERN "optest.h" EXCLUDE PATTERN "gtest" EXCLUDE
        PATTERN "testing" EXCLUDE)
# What vLLM finds, which has to be there where `import anyop` fails.
install(FILES python/anyop/vllm/_entry.py DESTINATION . RENAME anyop_vllm.py)
# What `anyop vllm install` and `anyop npu install` install.
install(DIRECTORY requirements/ DESTINATION anyop/requirements
        FILES_MATCHING PATTERN "vllm-*.txt" PATTERN "npu-*.txt" PATTERN "*-test.txt" EXCLUDE)

include(cmake/torch.cmake)
include(cmake/mindspore.cmake)

# The package as it will be installed, made of links, and the stubs that it gives of itself.
set(package ${CMAKE_BINARY_DIR}/package/anyop)
set(package_libraries anyop anyop_ascend anyop_ascend_device anyop_aicore_device anyop_ops
                      anyop_ops_reference _anyop _mindspore anyop_mindspore anyop_mindspore_plugin)
if(TARGET torch_adapter)
  list(APPEND package_libraries torch_adapter)
endif()
foreach(ascend anyop_ops_ascend anyop_ops_ascend_checked)
  if(TARGET ${ascend})
    list(APPEND package_libraries ${ascend})
    install(TARGETS ${ascend} LIBRARY DESTINATION anyop)
  endif()
endforeach()
install(FILES ${CMAKE_BINARY_DIR}/lib/anyop_ops.aicore.so DESTINATION anyop OPTIONAL)
if(TARGET anyop_cuda)
  list(APPEND package_libraries anyop_cuda)
  install(TARGETS anyop_cuda LIBRARY DESTINATION anyop)
endif()
# A Python without the sanitizers runs their extension if it loads their libraries first.
set(run_python "")
if(ANYOP_SANITIZE)
  set(run_python ${CMAKE_COMMAND} -E env "LD_PRELOAD=${ANYOP_PRELOAD}" ASAN_OPTIONS=detect_leaks=0)
endif()
set(programs anyop_run)
list(TRANSFORM programs REPLACE "(.+)" "--program=$<TARGET_FILE:\\1>" OUTPUT_VARIABLE
                                                                   package_programs)
list(TRANSFORM package_libraries REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE library_files)
file(GLOB_RECURSE package_files CONFIGURE_DEPENDS python/anyop/*.py)
# What `anyop bench ops` times.
file(GLOB bench_files CONFIGURE_DEPENDS ops/*/bench*.py)
foreach(file IN LISTS bench_files)
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(operator ${folder} NAME)
  install(FILES ${file} DESTINATION anyop/bench_cases/${operator})
endforeach()
add_custom_command(
  OUTPUT ${package}/__init__.pyi
  COMMAND ${run_python} $<TARGET_FILE:Python::Interpreter>
          ${CMAKE_CURRENT_SOURCE_DIR}/tools/make_package.py
          --source ${CMAKE_CURRENT_SOURCE_DIR}/python/anyop --output ${package}
          --operators ${CMAKE_CURRENT_SOURCE_DIR}/ops
          ${package_programs} ${library_files}
  DEPENDS ${package_libraries} ${programs} ${package_files} ${bench_files}
          ${CMAKE_CURRENT_SOURCE_DIR}/tools/make_package.py
  COMMENT "Writing the stubs of the Python package"
  VERBATIM)
add_custom_target(package ALL DEPENDS ${package}/__init__.pyi)
install(FILES ${package}/__init__.pyi DESTINATION anyop)
