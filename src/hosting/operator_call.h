// SPDX-License-Identifier: Apache-2.0
// A bound call of an operator.
#pragma once
#include <memory>

#include "hosting/call_text.h"

namespace anyop {

std::unique_ptr<BoundCall> MakeOperatorCall(OperatorText text, const ScopeState& scope);

}  // namespace anyop
