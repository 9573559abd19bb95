// SPDX-License-Identifier: Apache-2.0
// Recording: calls of this process as capsules (runtime/capsule.h) in the folder ANYOP_RECORD, for
// `anyop replay`. The graphs of a program are recorded by the calls that they make.
#pragma once
#include "runtime/operator.h"

namespace anyop {

bool IsRecording();

// Before the call runs, as it may write what it reads. Of calls with the same shapes, numbers and
// kernel the first ANYOP_RECORD_EACH are written, until there are ANYOP_RECORD_CALLS files or
// ANYOP_RECORD_MIB; the first one that is left out is a warning.
void Record(const Operator& op, const Plan& plan, const anyop_value* frame);

}  // namespace anyop
