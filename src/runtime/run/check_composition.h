// SPDX-License-Identifier: Apache-2.0
// Checks of .means that need the operators that it calls. They are made when a library is
// registered: before, its operators do not know each other.
#pragma once
#include <functional>
#include <string>

#include "runtime/registry/operator.h"

namespace anyop {

// An operator by its full name, or null.
using FindOperator = std::function<const Operator*(const std::string& full_name)>;

// Statements may write `mut` parameters, results and what earlier statements made, and each `mut`
// parameter must be written. Throws InvalidArgument. A call of an operator that is not there yet
// may write anything.
void CheckWrites(const Operator& op, const FindOperator& find);

// Statements may not come back to the operator that they compute, directly or by others' .means.
// Throws InvalidArgument.
void CheckCircles(const Operator& op, const FindOperator& find);

}  // namespace anyop
