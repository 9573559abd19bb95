# SPDX-License-Identifier: Apache-2.0
# The device library of chips, for kernels of the vendor's compiler (ANYOP_ASCEND_COMPILER). It opens the
# vendor's runtime when it is needed, so that it is built everywhere.
add_library(anyop_aicore_device MODULE devices/aicore/aicore.cc devices/aicore/runtime.cc)
target_include_directories(anyop_aicore_device PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} include)
target_compile_options(anyop_aicore_device PRIVATE -fvisibility=hidden)
target_link_libraries(anyop_aicore_device PRIVATE ${CMAKE_DL_LIBS})
anyop_harden(anyop_aicore_device)
anyop_export(anyop_aicore_device device)
set_target_properties(anyop_aicore_device PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY
                                                               ${CMAKE_BINARY_DIR}/lib)
if(ANYOP_BUILD_PYTHON)
  install(TARGETS anyop_aicore_device LIBRARY DESTINATION anyop)
endif()
