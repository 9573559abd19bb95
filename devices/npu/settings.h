// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "devices/ascend/variables.h"

namespace npu {

// What the environment may say of a virtual NPU under torch_npu, beyond that of other programs.
const virtual_device::Additions& TheAdditions();

}  // namespace npu
