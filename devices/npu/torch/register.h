// SPDX-License-Identifier: Apache-2.0
// torch's own operators on torch_npu's tensors: the CPU's kernels, in the order of the stream.
#pragma once

namespace virtual_torch {

// In the place of torch_npu's kernels, which need CANN. What torch_npu adds to torch stays its own.
void RegisterKernels();
// Changes of a tensor's layout in memory: they leave it as it is.
void RegisterFormats();

}  // namespace virtual_torch
