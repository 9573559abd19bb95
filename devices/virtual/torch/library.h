// SPDX-License-Identifier: Apache-2.0
// How torch comes to a library of a device, and what a function of C says of C++'s errors.
#pragma once
#include "anyop/device.h"

namespace virtual_torch {

// The table of the library's device, which runs the host's code. Raises where there is none.
const anyop_device& OpenLibrary(const char* path);

// Calls `start` with the path. Returns "", or the text of its error, which lives until the next
// call.
const char* ErrorOf(void (*start)(const char* path), const char* path);

}  // namespace virtual_torch
