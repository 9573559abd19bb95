# SPDX-License-Identifier: Apache-2.0
# Libraries of devices, beside the test programs, which load them by their path: the device for tests,
# and the example for authors, which is a project of its own.
file(GLOB far_sources CONFIGURE_DEPENDS devices/far/*.cc)
list(FILTER far_sources EXCLUDE REGEX "_test\\.cc$")
add_library(anyop_far SHARED ${far_sources})
target_include_directories(anyop_far PRIVATE include)
target_compile_options(anyop_far PRIVATE -fvisibility=hidden)
target_link_libraries(anyop_far PRIVATE Threads::Threads)
target_link_options(anyop_far PRIVATE -Wl,-z,nodelete)  # its threads last as long as the process
set_target_properties(anyop_far PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${tests_dir})
add_subdirectory(examples/device)
set_target_properties(toy PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${tests_dir})
