// SPDX-License-Identifier: Apache-2.0
// The values of arguments that a call leaves out.
#pragma once
#include "runtime/operator.h"

namespace anyop {

// The default of parameter i, as the first form states it; false if it must be given. Lists and
// words refer to the contract.
bool DefaultValue(const Operator& op, int i, anyop_value* value);

}  // namespace anyop
