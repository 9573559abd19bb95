# SPDX-License-Identifier: Apache-2.0
# The device library of NVIDIA's cards: devices/cuda, and the kernels of the files ops/*/cuda.cu. Such
# a file is compiled by nvcc into an image, which an assembler's .incbin puts into the library, and by
# the C++ compiler as the part that launches it. Nothing of CUDA is linked: the driver is opened when
# it is needed.
option(ANYOP_CUDA "Build the device library of NVIDIA's cards, which needs nvcc" OFF)
if(NOT ANYOP_CUDA)
  return()
endif()
find_program(ANYOP_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if(NOT ANYOP_NVCC)
  message(FATAL_ERROR "ANYOP_CUDA needs nvcc, which is not found. Try -DANYOP_NVCC=/path/to/nvcc.")
endif()
# Machine code for these, and PTX of the last, which the driver compiles for newer cards.
set(ANYOP_CUDA_ARCHITECTURES 80 90 CACHE STRING "Architectures of cards to compile for")
set(nvcc_flags -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr -ccbin ${CMAKE_CXX_COMPILER}
               -diag-suppress 177  # constants of the other half of a file
               -I${CMAKE_CURRENT_SOURCE_DIR} -I${CMAKE_CURRENT_SOURCE_DIR}/include)
if(ANYOP_WERROR)
  list(APPEND nvcc_flags -Werror all-warnings)
endif()
foreach(architecture ${ANYOP_CUDA_ARCHITECTURES})
  list(APPEND nvcc_flags -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()
list(GET ANYOP_CUDA_ARCHITECTURES -1 newest)
list(APPEND nvcc_flags -gencode arch=compute_${newest},code=compute_${newest})

# anyop_cuda_image(source name made): compiles the source for the cards; `made` gets the C++ file that
# holds the image as anyop_cuda_image_<name>.
function(anyop_cuda_image source name made)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/cuda)
  set(image ${folder}/${name}.fatbin)
  set(symbol anyop_cuda_image_${name})
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(
    OUTPUT ${image}
    COMMAND ${ANYOP_NVCC} ${nvcc_flags} -MD -MF ${image}.d -MT ${image} -fatbin -o ${image} ${source}
    DEPENDS ${source}
    DEPFILE ${image}.d
    COMMENT "Compiling ${name} for cards"
    VERBATIM)
  set(text "// Made by cmake/cuda.cmake.\nasm(R\"(\n.section .rodata\n.balign 64\n")
  string(APPEND text ".global ${symbol}\n.hidden ${symbol}\n${symbol}:\n.incbin \"${image}\"\n")
  string(APPEND text ".byte 0\n.previous\n)\");\n")
  file(CONFIGURE OUTPUT ${folder}/${name}_image.cc CONTENT "${text}" @ONLY)
  set_source_files_properties(${folder}/${name}_image.cc PROPERTIES OBJECT_DEPENDS ${image}
                                                                    SKIP_PRECOMPILE_HEADERS ON)
  set(${made} ${folder}/${name}_image.cc PARENT_SCOPE)
endfunction()

file(GLOB cuda_sources CONFIGURE_DEPENDS devices/cuda/*.cc)
list(FILTER cuda_sources EXCLUDE REGEX "_test\\.cc$")
file(GLOB cuda_kernels CONFIGURE_DEPENDS ops/*/cuda.cu)
anyop_cuda_image(${CMAKE_CURRENT_SOURCE_DIR}/devices/cuda/device.cu device cuda_image)
set(cuda_images ${cuda_image})
set(chosen "")
foreach(source ${cuda_kernels})
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(name ${folder} NAME)
  if(ANYOP_OPERATORS AND NOT name IN_LIST ANYOP_OPERATORS)
    continue()
  endif()
  list(APPEND chosen ${source})
  anyop_cuda_image(${source} ${name} cuda_image)
  list(APPEND cuda_images ${cuda_image})
  set_source_files_properties(${source} PROPERTIES LANGUAGE CXX
                              COMPILE_DEFINITIONS ANYOP_CUDA_IMAGE=anyop_cuda_image_${name})
endforeach()
set(cuda_table ${CMAKE_CURRENT_BINARY_DIR}/cuda/kernel_table.cc)
file(CONFIGURE OUTPUT ${cuda_table}.sources CONTENT "${chosen}\n" @ONLY)
add_custom_command(
  OUTPUT ${cuda_table}
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tools/list_cuda.py --output ${cuda_table}
          ${chosen}
  DEPENDS ${chosen} ${cuda_table}.sources ${CMAKE_CURRENT_SOURCE_DIR}/tools/list_cuda.py
  COMMENT "Listing the kernels for cards"
  VERBATIM)

add_library(anyop_cuda MODULE ${cuda_sources} ${chosen} ${cuda_images} ${cuda_table})
target_include_directories(anyop_cuda PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} include)
get_filename_component(nvcc_folder ${ANYOP_NVCC} REALPATH)
get_filename_component(nvcc_folder ${nvcc_folder} DIRECTORY)
if(EXISTS ${nvcc_folder}/../include/cuda.h)  # for driver_abi.cc alone
  target_include_directories(anyop_cuda SYSTEM PRIVATE ${nvcc_folder}/../include)
endif()
target_compile_options(anyop_cuda PRIVATE -fvisibility=hidden -fvisibility-inlines-hidden)
target_link_libraries(anyop_cuda PRIVATE ${CMAKE_DL_LIBS})
anyop_harden(anyop_cuda)
anyop_export(anyop_cuda device)
set_target_properties(anyop_cuda PROPERTIES PREFIX ""
                                            LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
