// SPDX-License-Identifier: Apache-2.0
// Observers of calls: check mode, recording (ANYOP_RECORD), times (ANYOP_PROFILE), and names for
// crashes (ANYOP_CRASH). They swap the entry of each operator, so that nothing of them is in the
// way of other calls.
#pragma once
#include "runtime/registry/operator.h"

namespace anyop {

// What an operator's entry is: RunPlan, or RunWatched where somebody observes.
Entry CurrentEntry();

// The entry of an operator while somebody observes. Whatever observes, a crash of the kernel names
// the call on standard error.
void RunWatched(Operator& op, Plan& plan, anyop_value* frame);

}  // namespace anyop
