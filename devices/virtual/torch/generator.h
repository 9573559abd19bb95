// SPDX-License-Identifier: Apache-2.0
// Random numbers. A generator draws the seed of each piece of work when the work is put on its
// stream, so that numbers depend on the order of calls, not on that of streams.
#pragma once
#include <ATen/core/Generator.h>

namespace virtual_torch {

const at::Generator& DefaultGenerator(c10::DeviceIndex index);
at::Generator NewGenerator(c10::DeviceIndex index);
// The generator of the CPU's kernel that does one piece of work.
at::Generator ForWork(const at::Generator& generator);

}  // namespace virtual_torch
