# SPDX-License-Identifier: Apache-2.0
# Virtual devices: what they have in common (devices/virtual), and the one that ships (devices/ascend).
# The device for tests is in far.cmake.
file(GLOB virtual_sources CONFIGURE_DEPENDS devices/virtual/*.cc)
add_library(virtual_device OBJECT ${virtual_sources})
target_include_directories(virtual_device PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} include)
target_compile_options(virtual_device PRIVATE -fvisibility=hidden)
target_link_libraries(virtual_device PUBLIC Threads::Threads)
anyop_harden(virtual_device)

# anyop_virtual_device(name source...): a library of a virtual device.
function(anyop_virtual_device name)
  add_library(${name} MODULE ${ARGN})
  target_compile_options(${name} PRIVATE -fvisibility=hidden)
  target_link_libraries(${name} PRIVATE virtual_device)
  target_link_options(${name} PRIVATE -Wl,-z,nodelete)  # its threads last as long as the process
  anyop_harden(${name})
  set_target_properties(${name} PROPERTIES PREFIX "")
endfunction()

anyop_virtual_device(anyop_ascend_device devices/ascend/ascend.cc devices/ascend/variables.cc)
target_include_directories(anyop_ascend_device PRIVATE ascend/include)
anyop_export(anyop_ascend_device device)
set_target_properties(anyop_ascend_device PROPERTIES LIBRARY_OUTPUT_DIRECTORY
                                                     ${CMAKE_BINARY_DIR}/lib)
if(ANYOP_BUILD_PYTHON)
  install(TARGETS anyop_ascend_device LIBRARY DESTINATION anyop)
endif()
