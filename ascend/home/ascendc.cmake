# SPDX-License-Identifier: Apache-2.0
# The functions of the vendor's CMake module for kernels, by the names of its public documentation.
# Kernels are compiled for this machine by bisheng of the folder that `anyop ascend home` makes.
if(COMMAND ascendc_library)
  return()
endif()
get_filename_component(ANYOP_ASCEND_HOME ${CMAKE_CURRENT_LIST_DIR}/../../.. ABSOLUTE)

# ascendc_library(target STATIC|SHARED source...): beside the library, aclrtlaunch_<kernel>.h for each
# kernel, in a folder that targets which link it search for headers.
function(ascendc_library target kind)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}_kernels)
  set(headers ${CMAKE_BINARY_DIR}/include/${target})
  file(MAKE_DIRECTORY ${folder} ${headers})
  set(objects "")
  foreach(source ${ARGN})
    get_filename_component(source ${source} ABSOLUTE)
    string(MD5 unique ${source})
    get_filename_component(name ${source} NAME_WE)
    set(object ${folder}/${name}_${unique}.o)
    set(includes $<TARGET_PROPERTY:${target},ANYOP_ASCEND_INCLUDES>)
    set(defines $<TARGET_PROPERTY:${target},ANYOP_ASCEND_DEFINES>)
    add_custom_command(
      OUTPUT ${object}
      COMMAND
        ${ANYOP_ASCEND_HOME}/bin/bisheng -c ${source} -o ${object} -fPIC -MD -MF ${object}.d
        --anyop-launch-headers=${headers} "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>"
        "$<$<BOOL:${defines}>:-D$<JOIN:${defines},;-D>>"
        "$<TARGET_PROPERTY:${target},ANYOP_ASCEND_OPTIONS>"
      DEPENDS ${source}
      DEPFILE ${object}.d
      COMMENT "Building kernels of ${name}"
      COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  add_library(${target} ${kind} ${objects})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${target} INTERFACE ${headers} ${ANYOP_ASCEND_HOME}/include)
  target_link_libraries(${target} PUBLIC @RUNTIME@)
endfunction()

function(anyop_ascend_append target property)
  foreach(word ${ARGN})
    if(NOT word MATCHES "^(PRIVATE|PUBLIC|INTERFACE)$")
      string(REGEX REPLACE "^-[DI]" "" word "${word}")
      set_property(TARGET ${target} APPEND PROPERTY ${property} "${word}")
    endif()
  endforeach()
endfunction()
function(ascendc_include_directories target)
  anyop_ascend_append(${target} ANYOP_ASCEND_INCLUDES ${ARGN})
endfunction()
function(ascendc_compile_definitions target)
  anyop_ascend_append(${target} ANYOP_ASCEND_DEFINES ${ARGN})
endfunction()
function(ascendc_compile_options target)
  anyop_ascend_append(${target} ANYOP_ASCEND_OPTIONS ${ARGN})
endfunction()
