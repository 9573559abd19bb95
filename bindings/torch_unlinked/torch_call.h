// SPDX-License-Identifier: Apache-2.0
// Calls that torch's dispatcher must see.
#pragma once
#include "bindings/operators/op_object.h"

namespace anyop::python {

struct Slots;  // bindings/calls/call.h, which reads tensors through this room

// Calls the torch operator of the same signature, through torch's dispatcher. A new reference.
PyObject* CallTorchOperator(OperatorInfo& info, const Slots& slots);

}  // namespace anyop::python
