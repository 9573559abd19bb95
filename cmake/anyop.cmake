# SPDX-License-Identifier: Apache-2.0
# Builds operator libraries, the built-in one and users' alike.
#
#   anyop_add_library(my_ops NAME my_ops FOLDER ${CMAKE_CURRENT_SOURCE_DIR}/ops VERSION 0.1.0)
#
# finds the operators in the .cc files below FOLDER and makes two shared objects:
#   my_ops            every file but tests, benches and references
#   my_ops_reference  the files reference.cc, loaded by tests and checks only
# and, where there are files ascend.cpp or ascend.asc (anyop/ascend.h), two more, which are loaded with
# the virtual device `ascend`: my_ops.ascend and my_ops.ascend_checked. Where ANYOP_ASCEND_COMPILER names
# the vendor's compiler, my_ops.aicore is made of them too, for chips.
# A file cpu_<isa>.cc is compiled for that instruction set (isa.cmake) or left out, and cpu.cc for
# every processor and for each general instruction set. ONLY names the folders below FOLDER that are
# looked into.
include_guard(GLOBAL)
set(ANYOP_CMAKE_DIR ${CMAKE_CURRENT_LIST_DIR})
include(${ANYOP_CMAKE_DIR}/isa.cmake)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
if(NOT ANYOP_INCLUDE_DIR)
  get_filename_component(ANYOP_INCLUDE_DIR ${ANYOP_CMAKE_DIR}/../include ABSOLUTE)
endif()
if(NOT ANYOP_LIST_OPS)
  get_filename_component(ANYOP_LIST_OPS ${ANYOP_CMAKE_DIR}/../tools/list_ops.py ABSOLUTE)
endif()

get_filename_component(_anyop_tools ${ANYOP_LIST_OPS} DIRECTORY)
set(ANYOP_LISTING ${ANYOP_LIST_OPS} ${_anyop_tools}/check_ops.py ${_anyop_tools}/kernel_files.py
                  ${ANYOP_CMAKE_DIR}/isa.cmake)

# Fast but exact: no reassociation, no fused multiply-add that the source does not write.
set(ANYOP_KERNEL_OPTIONS -fno-math-errno -fno-trapping-math -ffp-contract=off -fvisibility=hidden
                         -fvisibility-inlines-hidden ${ANYOP_JUMP_OPTIONS})

# Whether this build has a better kernel beside the file, or of the same file.
function(_anyop_has_better source isa better)
  set(${better} FALSE PARENT_SCOPE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(name ${source} NAME)
  if(ANYOP_NATIVE STREQUAL "BEST" AND "${ANYOP_BETTER_${isa}}" IN_LIST ANYOP_ISAS
     AND (name STREQUAL "cpu.cc" OR EXISTS ${folder}/cpu_${ANYOP_BETTER_${isa}}.cc))
    set(${better} TRUE PARENT_SCOPE)
  endif()
endfunction()

# Whether the kernels of a portable file have better ones in this build: cpu.cc has them itself,
# others beside it or declare them. They run where somebody asks for them, and are compiled in less
# time.
function(_anyop_hardly_runs source hardly)
  set(${hardly} FALSE PARENT_SCOPE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(name ${source} NAME)
  file(STRINGS ${source} has_kernel REGEX "^ANYOP_KERNEL" LIMIT_COUNT 1)
  foreach(isa ${ANYOP_ISAS})
    file(STRINGS ${source} declared REGEX "_${isa}.*\\[\\[gnu::weak" LIMIT_COUNT 1)
    if(declared
       OR ((has_kernel OR name STREQUAL "portable.cc") AND EXISTS ${folder}/cpu_${isa}.cc)
       OR (name STREQUAL "cpu.cc" AND isa IN_LIST ANYOP_GENERAL))
      set(${hardly} TRUE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# The instruction sets that a file is compiled for.
function(_anyop_isas_of source isas)
  get_filename_component(stem ${source} NAME_WE)
  if(stem MATCHES "^cpu_(.+)$")
    set(${isas} ${CMAKE_MATCH_1} PARENT_SCOPE)
  elseif(stem STREQUAL "cpu")
    set(${isas} portable ${ANYOP_GENERAL} PARENT_SCOPE)
  else()
    set(${isas} portable PARENT_SCOPE)
  endif()
endfunction()

function(_anyop_compile_kernels target isa folder)
  target_include_directories(${target} PRIVATE ${ANYOP_INCLUDE_DIR} ${folder} ${folder}/..)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE -Wall -Wextra ${ANYOP_KERNEL_OPTIONS})
  if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT ANYOP_SANITIZE)
    target_compile_options(${target} PRIVATE -O3)
  endif()
  target_compile_options(${target} PRIVATE ${ANYOP_FLAGS_${isa}})
  target_compile_definitions(${target} PRIVATE ANYOP_ISA=${isa}
                                               "ANYOP_NEEDS=\"${ANYOP_NEEDS_${isa}}\"")
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
endfunction()

# `portable` are those of the sources that the target compiles itself; the objects are those of
# further targets, one for each instruction set.
function(_anyop_module target name version folder only what sources portable objects)
  set(table ${CMAKE_CURRENT_BINARY_DIR}/${target}_table.cc)
  # A file that is gone makes nothing newer; the list of files does.
  file(CONFIGURE OUTPUT ${table}.sources CONTENT "${sources}\n" @ONLY)
  add_custom_command(
    OUTPUT ${table}
    COMMAND Python3::Interpreter ${ANYOP_LIST_OPS} --name ${name} --library-version ${version}
            --folder ${folder} --only ${only} --what ${what} --output ${table}
    DEPENDS ${sources} ${table}.sources ${ANYOP_LISTING}
    COMMENT "Listing the ${what} of ${name}"
    VERBATIM)
  # A target of their own: files of one target share a precompiled header, which holds for one -O.
  set(quick "")
  if(ANYOP_NATIVE STREQUAL "BEST")
    foreach(source ${portable})
      _anyop_hardly_runs(${source} hardly)
      if(hardly OR what STREQUAL "references")
        list(APPEND quick ${source})
      endif()
    endforeach()
  endif()
  if(quick)
    list(REMOVE_ITEM portable ${quick})
    add_library(${target}_quick OBJECT ${quick})
    _anyop_compile_kernels(${target}_quick portable ${folder})
    target_compile_options(${target}_quick PRIVATE -O1)
    list(APPEND objects $<TARGET_OBJECTS:${target}_quick>)
  endif()
  add_library(${target} MODULE ${portable} ${table} ${objects})
  _anyop_compile_kernels(${target} portable ${folder})
  # Costs no kernel anything: tables of addresses that are read-only once the library is loaded, and
  # no symbol but the one function that the runtime asks for.
  set(map ${CMAKE_CURRENT_BINARY_DIR}/${target}.map)
  file(CONFIGURE OUTPUT ${map} CONTENT "{ global: anyop_library; local: *; };\n" @ONLY)
  target_link_options(${target} PRIVATE -Wl,-z,relro,-z,now,-z,noexecstack
                                        -Wl,--version-script=${map})
  set_target_properties(${target} PROPERTIES PREFIX "")
endfunction()

# Where the AscendC dialect lies: ANYOP_ASCEND_DIR, or in the anyop that is installed.
function(_anyop_find_ascend)
  if(ANYOP_ASCEND_DIR)
    return()
  endif()
  execute_process(COMMAND ${Python3_EXECUTABLE} -m anyop config --ascenddir
                  OUTPUT_VARIABLE found ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND ${Python3_EXECUTABLE} -m anyop config --ascendlib
                  OUTPUT_VARIABLE runtime ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(ANYOP_ASCEND_DIR "${found}" CACHE PATH "The folder of the AscendC dialect" FORCE)
  set(ANYOP_ASCEND_RUNTIME "${runtime}" CACHE FILEPATH "The dialect's runtime" FORCE)
endfunction()

# The kernels ascend_host, and with checks ascend_checked, of the files given.
function(_anyop_add_ascend target name folder sources)
  _anyop_find_ascend()
  if(NOT ANYOP_ASCEND_DIR)
    message(WARNING "${target}: kernels in AscendC need an installed anyop and are left out.")
    return()
  endif()
  foreach(source ${sources})
    file(RELATIVE_PATH tag ${folder} ${source})
    string(MAKE_C_IDENTIFIER ${tag} tag)
    set_source_files_properties(${source} PROPERTIES LANGUAGE CXX SKIP_PRECOMPILE_HEADERS ON
                                                     COMPILE_DEFINITIONS ANYOP_ASCEND_FILE=${tag})
  endforeach()
  set(map ${CMAKE_CURRENT_BINARY_DIR}/${target}_ascend.map)
  file(CONFIGURE OUTPUT ${map} CONTENT "{ global: anyop_device_library; local: *; };\n" @ONLY)
  # Of an installed package, beside anyop; of a build, where anyop is.
  set(rpath "$ORIGIN;$ORIGIN/../anyop")
  if(NOT TARGET ${ANYOP_ASCEND_RUNTIME} AND ANYOP_ASCEND_RUNTIME MATCHES "/")
    get_filename_component(beside ${ANYOP_ASCEND_RUNTIME} DIRECTORY)
    file(REAL_PATH ${beside} beside)
    list(APPEND rpath ${beside})
  endif()
  foreach(build ascend ascend_checked)
    add_library(${target}_${build} MODULE ${sources})
    target_compile_definitions(
      ${target}_${build} PRIVATE ANYOP_ASCEND_CHECKED=$<STREQUAL:${build},ascend_checked>
                                 "ANYOP_ASCEND_LIBRARY=\"${name}\"")
    target_include_directories(${target}_${build} PRIVATE ${ANYOP_INCLUDE_DIR} ${folder}
                                                         ${folder}/..)
    target_include_directories(${target}_${build} SYSTEM PRIVATE ${ANYOP_ASCEND_DIR}/include
                                                                 ${ANYOP_ASCEND_DIR}/include/stubs)
    target_compile_features(${target}_${build} PRIVATE cxx_std_20)
    # -x c++: for a file ascend.asc.
    target_compile_options(${target}_${build} PRIVATE -xc++ -fvisibility=hidden -ffp-contract=off)
    target_link_options(${target}_${build} PRIVATE -Wl,-z,relro,-z,now,-z,noexecstack
                                                   -Wl,--version-script=${map})
    target_link_libraries(${target}_${build} PRIVATE ${ANYOP_ASCEND_RUNTIME})
    set_target_properties(${target}_${build}
                          PROPERTIES PREFIX "" OUTPUT_NAME ${target}.${build} CXX_EXTENSIONS ON
                                     POSITION_INDEPENDENT_CODE ON
                                     BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${rpath}")
  endforeach()
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target}_ascend PRIVATE -O3)
    target_compile_options(${target}_ascend_checked PRIVATE -O1)
  endif()
  target_compile_options(${target}_ascend_checked PRIVATE -g1)
  if(ANYOP_NATIVE AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(${target}_ascend PRIVATE -march=native)
  endif()
endfunction()

set(ANYOP_ASCEND_COMPILER "" CACHE FILEPATH
    "The vendor's compiler of AscendC (bisheng), which makes kernels for chips; empty: none are made")
set(ANYOP_ASCEND_ARCH dav-2201 CACHE STRING "The chips' architecture, as the vendor's compiler has it")

# The kernels aicore_bisheng, by the vendor's compiler. Never run with the real one (docs/ascend.md).
function(_anyop_add_aicore target name folder sources)
  set(library ${CMAKE_CURRENT_BINARY_DIR}/${target}.aicore.so)
  if(NOT ANYOP_ASCEND_COMPILER)
    file(REMOVE ${library})
    return()
  endif()
  execute_process(COMMAND ${Python3_EXECUTABLE} ${_anyop_tools}/ascend_compiler.py
                          ${ANYOP_ASCEND_COMPILER}
                  RESULT_VARIABLE is_refused ERROR_VARIABLE why OUTPUT_QUIET)
  if(is_refused)
    string(STRIP "${why}" why)
    message(FATAL_ERROR "${why}")
  endif()
  # In a folder of their own: beside them lies the dialect's kernel_operator.h, and the vendor's compiler
  # must find its own.
  set(made ${CMAKE_CURRENT_BINARY_DIR}/${target}_aicore)
  foreach(header ascend.h ascend_chip.h)
    configure_file(${ANYOP_ASCEND_DIR}/include/anyop/${header} ${made}/anyop/${header} COPYONLY)
  endforeach()
  set(flags -std=c++20 -O3 -fPIC -fvisibility=hidden --npu-arch=${ANYOP_ASCEND_ARCH}
            -DANYOP_ASCEND_CHIP=1 "-DANYOP_ASCEND_LIBRARY=\"${name}\"" -I${ANYOP_INCLUDE_DIR}
            -I${folder} -I${folder}/.. -I${made})
  set(linked -lascendcl)
  if(DEFINED ENV{ASCEND_HOME_PATH})  # set_env.sh of the toolkit
    list(APPEND flags -I$ENV{ASCEND_HOME_PATH}/include)
    list(PREPEND linked -L$ENV{ASCEND_HOME_PATH}/lib64)
  endif()
  set(objects "")
  foreach(source ${sources})
    file(RELATIVE_PATH tag ${folder} ${source})
    string(MAKE_C_IDENTIFIER ${tag} tag)
    set(object ${made}/${tag}.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${ANYOP_ASCEND_COMPILER} ${flags} -MD -MF ${object}.d -MT ${object} -c -x asc ${source}
              -o ${object}
      DEPENDS ${source} ${ANYOP_ASCEND_COMPILER}
      DEPFILE ${object}.d
      COMMENT "Compiling ${tag} for ${ANYOP_ASCEND_ARCH}"
      VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  add_custom_command(
    OUTPUT ${library}
    COMMAND ${ANYOP_ASCEND_COMPILER} --npu-arch=${ANYOP_ASCEND_ARCH} -shared ${objects} -o ${library}
            ${linked}
    DEPENDS ${objects}
    COMMENT "Linking kernels of ${name} for ${ANYOP_ASCEND_ARCH}"
    VERBATIM)
  add_custom_target(
    ${target}_aicore ALL
    COMMAND ${CMAKE_COMMAND} -E copy_if_different ${library} $<TARGET_FILE_DIR:${target}>/
    DEPENDS ${library}
    VERBATIM)
endfunction()

function(anyop_add_library target)
  cmake_parse_arguments(ARG "" "NAME;FOLDER;VERSION" "ONLY" ${ARGN})
  if(NOT ARG_NAME OR NOT ARG_FOLDER)
    message(FATAL_ERROR "anyop_add_library(${target}) needs NAME and FOLDER.")
  endif()
  if(NOT ARG_VERSION)
    set(ARG_VERSION 0.0.0)
  endif()
  set(folders ${ARG_FOLDER})
  if(ARG_ONLY)
    set(folders ${ARG_ONLY})
    list(TRANSFORM folders PREPEND ${ARG_FOLDER}/)
  endif()
  list(TRANSFORM folders APPEND /ascend.cpp OUTPUT_VARIABLE ascend)
  list(TRANSFORM folders APPEND /ascend.asc OUTPUT_VARIABLE ascend_asc)
  file(GLOB_RECURSE ascend CONFIGURE_DEPENDS ${ascend} ${ascend_asc})
  if(ascend AND NOT ANYOP_NO_ASCEND)
    _anyop_add_ascend(${target} ${ARG_NAME} ${ARG_FOLDER} "${ascend}")
    if(ANYOP_ASCEND_DIR)
      _anyop_add_aicore(${target} ${ARG_NAME} ${ARG_FOLDER} "${ascend}")
    endif()
  endif()
  list(TRANSFORM folders APPEND /*.cc)
  file(GLOB_RECURSE all CONFIGURE_DEPENDS ${folders})
  set(sources "")
  set(references "")
  foreach(source ${all})
    get_filename_component(file ${source} NAME)
    _anyop_isas_of(${source} isas)
    if(file MATCHES "(^|_)(test|bench)\\.cc$")
      continue()
    elseif(file MATCHES "(^|_)reference\\.cc$")
      list(APPEND references ${source})
      continue()
    endif()
    foreach(isa ${isas})
      _anyop_has_better(${source} ${isa} better)
      if(NOT better AND (isa STREQUAL "portable" OR isa IN_LIST ANYOP_ISAS))
        list(APPEND sources ${source})
        list(APPEND sources_${isa} ${source})
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES sources)
  if(NOT sources)
    message(FATAL_ERROR "anyop_add_library(${target}): no operator found below ${ARG_FOLDER}.")
  endif()
  set(objects "")
  foreach(isa ${ANYOP_ISAS})
    if(sources_${isa})
      add_library(${target}_${isa} OBJECT ${sources_${isa}})
      _anyop_compile_kernels(${target}_${isa} ${isa} ${ARG_FOLDER})
      list(APPEND objects $<TARGET_OBJECTS:${target}_${isa}>)
    endif()
  endforeach()
  _anyop_module(${target} ${ARG_NAME} ${ARG_VERSION} ${ARG_FOLDER} "${ARG_ONLY}" operators
                "${sources}" "${sources_portable}" "${objects}")
  if(references)
    _anyop_module(${target}_reference ${ARG_NAME} ${ARG_VERSION} ${ARG_FOLDER} "${ARG_ONLY}"
                  references "${references}" "${references}" "")
  else()
    # What was made of references that are deleted would go on being compared with.
    file(REMOVE ${CMAKE_CURRENT_BINARY_DIR}/${target}_reference.so)
  endif()
endfunction()
