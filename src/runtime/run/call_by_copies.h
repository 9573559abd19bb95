// SPDX-License-Identifier: Apache-2.0
// Calls of tensors on the host that a device runs on copies, because the policy asks for a kernel
// of it (anyop_device.takes_host_calls).
#pragma once
#include "runtime/plan/plan.h"
#include "runtime/registry/operator.h"

namespace anyop {

// Runs such a call; RunSlow has checked its memory. Returns when the results are there. The copies
// are counted in the row of the kernel that runs.
void RunByCopies(Operator& op, const Plan& plan, const anyop_value* given);

}  // namespace anyop
