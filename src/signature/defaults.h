// SPDX-License-Identifier: Apache-2.0
// The values of arguments that a call leaves out.
#pragma once
#include "signature/contract.h"

namespace anyop {

// The default of parameter i, as the first form states it; false if it must be given. Lists and
// words point into the contract.
bool DefaultValue(const Contract& contract, int i, anyop_value* value);

}  // namespace anyop
