// SPDX-License-Identifier: Apache-2.0
// Operators that cannot be a kernel of the CPU on a thread of the device: they are made of others.
#pragma once
#include <torch/library.h>

namespace virtual_torch {

// `aten`: for the device's kernels.
void RegisterComposed(torch::Library& aten);

}  // namespace virtual_torch
