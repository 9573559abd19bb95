# SPDX-License-Identifier: Apache-2.0
# find_package(anyop): the target anyop::anyop, of an installed wheel or of a checkout that is built.
get_filename_component(_anyop_root ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
find_library(ANYOP_LIBRARY anyop PATHS ${_anyop_root} ${_anyop_root}/build/release/lib
             NO_DEFAULT_PATH)
if(NOT ANYOP_LIBRARY)
  set(anyop_FOUND FALSE)
  set(anyop_NOT_FOUND_MESSAGE "libanyop.so is not in ${_anyop_root}. Try reinstalling anyop")
  return()
endif()
if(NOT TARGET anyop::anyop)
  add_library(anyop::anyop SHARED IMPORTED)
  set_target_properties(anyop::anyop PROPERTIES IMPORTED_LOCATION ${ANYOP_LIBRARY}
                                                INTERFACE_INCLUDE_DIRECTORIES
                                                ${_anyop_root}/include)
  target_compile_features(anyop::anyop INTERFACE cxx_std_20)
endif()
