// SPDX-License-Identifier: Apache-2.0
// Copies between the host and devices, in the order of the current streams.
#pragma once
#include <ATen/core/Tensor.h>

namespace virtual_torch {

// As torch's operators of these names.
at::Tensor CopyFrom(const at::Tensor& from, const at::Tensor& to, bool non_blocking);
at::Tensor CopyFromAndResize(const at::Tensor& from, const at::Tensor& to);

}  // namespace virtual_torch
