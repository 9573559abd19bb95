// SPDX-License-Identifier: Apache-2.0
// Overlap and alignment of a call's tensors, with words for what is wrong.
#pragma once
#include "runtime/plan/plan.h"

namespace anyop {

// Every written tensor against every other, list elements one by one. Throws InvalidArgument.
void CheckMemory(const Operator& op, const Plan& plan, const anyop_value* frame);

}  // namespace anyop
