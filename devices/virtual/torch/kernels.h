// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace virtual_torch {

// The kernels of ATen that cannot be work on a stream, and the fallback for all others.
void RegisterKernels();

}  // namespace virtual_torch
