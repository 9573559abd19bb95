// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "anyop/abi.h"
#include "signature/contract.h"

namespace anyop::python {

// The value of a parameter that a call leaves out, pointing into the contract. False if it may not
// be left out: it has no default, and None is none because a later parameter lacks one.
bool DefaultValue(const Contract& contract, int param, anyop_value* value);

}  // namespace anyop::python
