# SPDX-License-Identifier: Apache-2.0
# The MindSpore host. Neither part needs MindSpore when it is built, so that the package carries both
# for everybody: the tensors, which Python's extension reads by MindSpore's own methods, and what
# MindSpore calls itself, built for its C++ ABI, over the C header of bound calls.
python_add_library(_mindspore MODULE WITH_SOABI bindings/mindspore/tensor.cc)
target_include_directories(_mindspore PRIVATE include)
target_compile_options(_mindspore PRIVATE -fvisibility=hidden ${ANYOP_NO_SHADOWS})
anyop_harden(_mindspore)
anyop_export(_mindspore python)
set_target_properties(_mindspore PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

add_library(anyop_mindspore MODULE bindings/mindspore/nodes.cc bindings/mindspore/timeline.cc)
target_compile_definitions(anyop_mindspore PRIVATE _GLIBCXX_USE_CXX11_ABI=0)
target_compile_options(anyop_mindspore PRIVATE -fvisibility=hidden ${ANYOP_NO_SHADOWS})
target_include_directories(anyop_mindspore PRIVATE include)
target_link_libraries(anyop_mindspore PRIVATE ${CMAKE_BINARY_DIR}/lib/libanyop.so
                                              ${CMAKE_DL_LIBS})
add_dependencies(anyop_mindspore anyop)
anyop_harden(anyop_mindspore)
anyop_export(anyop_mindspore mindspore)
# MindSpore closes and opens it for every inference.
target_link_options(anyop_mindspore PRIVATE -Wl,-z,nodelete)
set_target_properties(anyop_mindspore PROPERTIES PREFIX "" INSTALL_RPATH "$ORIGIN"
                                                 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

# MindSpore's own primitives by our operators: a function for each row of primitives.txt.
set(primitives ${CMAKE_CURRENT_SOURCE_DIR}/bindings/mindspore/primitives.txt)
set(plugin ${CMAKE_CURRENT_BINARY_DIR}/mindspore_plugin)
add_custom_command(
  OUTPUT ${plugin}.cc ${plugin}.map
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tools/list_primitives.py ${primitives}
          --output ${plugin}.cc --map ${plugin}.map
  DEPENDS ${primitives} ${CMAKE_CURRENT_SOURCE_DIR}/tools/list_primitives.py
  COMMENT "Making the functions of MindSpore's plug-in"
  VERBATIM)
add_library(
  anyop_mindspore_plugin MODULE
  ${plugin}.cc ${plugin}.map bindings/mindspore/plugin.cc bindings/mindspore/plugin_attention.cc
  bindings/mindspore/plugin_norm.cc bindings/mindspore/plugin_rope.cc)
target_compile_options(anyop_mindspore_plugin PRIVATE -fvisibility=hidden ${ANYOP_NO_SHADOWS})
target_include_directories(anyop_mindspore_plugin PRIVATE bindings/mindspore)
target_link_libraries(anyop_mindspore_plugin PRIVATE anyop)
anyop_harden(anyop_mindspore_plugin)
target_link_options(anyop_mindspore_plugin PRIVATE -Wl,--version-script=${plugin}.map
                    -Wl,-z,nodelete)
set_property(TARGET anyop_mindspore_plugin APPEND PROPERTY LINK_DEPENDS ${plugin}.map)
set_target_properties(anyop_mindspore_plugin PROPERTIES PREFIX "" INSTALL_RPATH "$ORIGIN"
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
install(TARGETS _mindspore anyop_mindspore anyop_mindspore_plugin LIBRARY DESTINATION anyop)
