# SPDX-License-Identifier: Apache-2.0
# Builds that look for wrong accesses to memory and undefined arithmetic, or for races.
include_guard(GLOBAL)
set(ANYOP_SANITIZE "" CACHE STRING "Sanitizers for everything: address,undefined or thread")
set(ANYOP_TEST_PROGRAMS "" CACHE PATH
    "With the address sanitizer: the folder of a plain build's test programs, which then run with \
the libraries of this build, so that no test is compiled twice")
set(ANYOP_PRELOAD "")  # what a program without the sanitizers loads before it loads our libraries
if(NOT ANYOP_SANITIZE)
  return()
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-Og -DNDEBUG")  # -O1 takes twice as long to compile
add_compile_options(-fsanitize=${ANYOP_SANITIZE} -fno-omit-frame-pointer -g1)
if(ANYOP_SANITIZE MATCHES "address")
  # The address sanitizer finds these too; looking for them twice is a fourth of the compiler's time.
  add_compile_options(-fno-sanitize=null,object-size)
  if(NOT ANYOP_EXHAUSTIVE)
    # Its checks of every access are two fifths of what the compiler takes (measured: 24.6 s of CPU
    # against 15.4 s for a file of the runtime); ./check --all has them.
    add_compile_options(-fno-sanitize=alignment)
  endif()
endif()
add_compile_definitions(_GLIBCXX_ASSERTIONS)
add_link_options(-fsanitize=${ANYOP_SANITIZE})
foreach(library libasan.so libubsan.so libstdc++.so)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${library}
                  OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE)
  list(APPEND ANYOP_PRELOAD ${file})
endforeach()
list(JOIN ANYOP_PRELOAD " " ANYOP_PRELOAD)
file(WRITE ${CMAKE_BINARY_DIR}/ld_preload "${ANYOP_PRELOAD}")  # for tools/check.py
