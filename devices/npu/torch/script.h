// SPDX-License-Identifier: Apache-2.0
// The scripts of aclnn operators, compiled when they are first called.
#pragma once
#include <ATen/core/stack.h>
#include <torch/csrc/jit/api/function_impl.h>

#include <string>

#include "devices/npu/aclnn/operator.h"

namespace virtual_torch::aclnn {

// The function that an operator's script is. Raises c10::Error where it is no TorchScript.
torch::jit::Function& ScriptOf(const npu::Operator& op, const char* shared);

}  // namespace virtual_torch::aclnn
