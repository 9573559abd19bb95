// SPDX-License-Identifier: Apache-2.0
// What computes aclnn operators: TorchScript on the CPU's tensors, which calls torch's operators
// and, as `anyop.name`, those of anyop.
#pragma once
#include <string>

namespace virtual_torch {

// Has the operators of the library computed here. library: of anyop_npu.so, as dlopen gave it.
void ComputeAclnn(void* library);
// Which scripts cannot be compiled, and why; "" if all can.
std::string WrongScripts();

}  // namespace virtual_torch
