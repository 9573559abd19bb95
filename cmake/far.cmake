# SPDX-License-Identifier: Apache-2.0
# Libraries of devices, beside the test programs, which load them by their path: the device for tests,
# the example for authors, which is a project of its own, and that of NVIDIA's cards over a driver that
# needs no card.
anyop_virtual_device(anyop_far devices/far/far.cc)
set_target_properties(anyop_far PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${tests_dir})
add_subdirectory(examples/device)
set_target_properties(toy PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${tests_dir})

file(GLOB card_sources CONFIGURE_DEPENDS devices/cuda/*.cc)
add_library(anyop_cuda_fake MODULE ${card_sources} devices/cuda/testing/fake_image.cc)
target_compile_options(anyop_cuda_fake PRIVATE -fvisibility=hidden)
target_link_libraries(anyop_cuda_fake PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(anyop_cuda_fake PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${tests_dir})
# The name that is looked up is libcuda.so.1.
foreach(driver fake_driver old_driver)
  add_library(${driver} SHARED devices/cuda/testing/fake_driver.cc)
  set_target_properties(${driver} PROPERTIES OUTPUT_NAME cuda SOVERSION 1
                                             LIBRARY_OUTPUT_DIRECTORY ${tests_dir}/${driver})
  add_dependencies(anyop_cuda_fake ${driver})
endforeach()
target_compile_definitions(old_driver PRIVATE FAKE_IS_OLD)  # lacks a function
foreach(target anyop_cuda_fake fake_driver old_driver)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} include)
endforeach()
