// SPDX-License-Identifier: Apache-2.0
// The kernels of operators that the library carries. The build writes the functions, from the lines
// `extern constinit const DeviceKernel NAME{` of the files ops/*/cuda.cu.
#pragma once
#include <cstdint>

#include "anyop/device.h"

namespace anyop::cuda {

std::uint32_t KernelCount();
const anyop_device_kernel* const* Kernels();

}  // namespace anyop::cuda
