# SPDX-License-Identifier: Apache-2.0
# The libraries that torch_npu links, played by the virtual NPU (devices/npu): all of it is in
# anyop_npu.so, and libraries of the names that torch_npu asks for lead there.
file(GLOB npu_sources CONFIGURE_DEPENDS devices/npu/*.cc devices/npu/aclnn/*.cc)
list(FILTER npu_sources EXCLUDE REGEX "_test\.cc$")
set(npu_list ${CMAKE_CURRENT_SOURCE_DIR}/devices/npu/unsupported.txt)
set(npu_unsupported ${CMAKE_BINARY_DIR}/npu_unsupported.cc)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${npu_list})
file(STRINGS ${npu_list} names)
set(text "extern \"C\" {\nlong anyop_npu_unsupported(const char*);\n")
string(APPEND text "void anyop_npu_unsupported_class(const char*);\n")
foreach(name ${names})
  if(name MATCHES "^_Z")
    string(APPEND text "void ${name}() { anyop_npu_unsupported_class(\"${name}\"); }\n")
  elseif(name MATCHES "^acl(GetTensorDesc|Create|opCreate|tdtCreate|tdtGet)")
    # What they return is no code but a number or an object: none. torch_npu would count up to a code.
    string(APPEND text "long ${name}() { return anyop_npu_unsupported(\"${name}\"), 0; }\n")
  else()
    string(APPEND text "long ${name}() { return anyop_npu_unsupported(\"${name}\"); }\n")
  endif()
endforeach()
file(CONFIGURE OUTPUT ${npu_unsupported} CONTENT "${text}}\n" @ONLY)

anyop_virtual_device(anyop_npu ${npu_sources} devices/ascend/variables.cc ${npu_unsupported})
set_source_files_properties(${npu_unsupported} PROPERTIES COMPILE_OPTIONS -fvisibility=default)
target_include_directories(anyop_npu PRIVATE ascend/include)
anyop_export(anyop_npu npu)
set_target_properties(anyop_npu PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
target_link_options(anyop_npu PRIVATE -Wl,-soname,anyop_npu.so)

set(npu_nothing ${CMAKE_BINARY_DIR}/npu_nothing.cc)
file(CONFIGURE OUTPUT ${npu_nothing} CONTENT "\n" @ONLY)
set(npu_libraries)
foreach(name acl_op_compiler acl_tdt_channel ascend_protobuf ascendcl atb fmk_parser ge_runner graph
        hccl nnopbase opapi)
  add_library(npu_${name} SHARED ${npu_nothing})
  set_target_properties(npu_${name} PROPERTIES OUTPUT_NAME ${name} INSTALL_RPATH "$ORIGIN/../.."
                        BUILD_WITH_INSTALL_RPATH ON LINK_DEPENDS_NO_SHARED ON
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/npu/lib)
  add_dependencies(npu_${name} anyop_npu)
  target_link_options(npu_${name} PRIVATE -Wl,--no-as-needed
                      $<TARGET_FILE:anyop_npu> -Wl,-z,relro,-z,now,-z,noexecstack)
  list(APPEND npu_libraries npu_${name})
endforeach()
add_custom_target(anyop_npu_libraries DEPENDS ${npu_libraries})
if(ANYOP_BUILD_PYTHON)
  install(TARGETS anyop_npu LIBRARY DESTINATION anyop)
  install(TARGETS ${npu_libraries} LIBRARY DESTINATION anyop/npu/lib)
endif()
