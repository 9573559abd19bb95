// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "call.h"

namespace anyop::python {

// Calls the torch operator of the same signature, through torch's dispatcher. A new reference.
PyObject* CallTorchOperator(OperatorInfo& info, const Slots& slots);

}  // namespace anyop::python
