// SPDX-License-Identifier: Apache-2.0
// Memory of fresh results.
#pragma once
#include <ATen/EmptyTensor.h>

namespace anyop::torch_host {

// at::detail::empty_cpu with a cheaper allocator for small tensors; both are called through one
// type of pointer (anyop::python::TorchFunctions::empty).
at::TensorBase EmptyCpu(at::IntArrayRef sizes, at::ScalarType dtype, bool is_pinned = false,
                        std::optional<at::MemoryFormat> format = {});

}  // namespace anyop::torch_host
