# SPDX-License-Identifier: Apache-2.0
# What protects a process that loads our libraries, where no kernel pays for it: canaries on the
# stack and checked copies (runtime, bindings, programs), tables of addresses that are read-only
# once the process runs, no search for libraries in the working directory, and no symbols of the
# standard library that other libraries could meet. tools/house.py looks at what was built.
include_guard(GLOBAL)
set(CMAKE_NO_BUILTIN_CHRPATH ON)  # pads RUNPATH with entries that mean the working directory
set(ANYOP_CMAKE_FOLDER ${CMAKE_CURRENT_LIST_DIR})

function(anyop_harden target)
  target_compile_options(${target} PRIVATE -fstack-protector-strong)
  if(NOT ANYOP_SANITIZE)  # they check more, and do not see through the checked functions
    target_compile_options(
      ${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>)
  endif()
  target_link_options(${target} PRIVATE -Wl,-z,relro,-z,now,-z,noexecstack)
  set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
endfunction()

# Only what the file exports/<name>.map lists is visible in the library.
function(anyop_export target name)
  set(map ${ANYOP_CMAKE_FOLDER}/exports/${name}.map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${map})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
endfunction()
