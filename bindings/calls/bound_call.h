// SPDX-License-Identifier: Apache-2.0
// Bound calls as Python sees them: _anyop.BoundCall.
#pragma once
#include "anyop/value.h"
#include "bindings/operators/op_object.h"

namespace anyop {
class BoundCall;
}

namespace anyop::python {

// The bound call of a call in this thread's scope, a new reference. frame: a value per parameter,
// of tensors only the dtype counts. given: what FindGiven says of the results.
Ref BindCall(const OperatorInfo& info, const anyop_value* frame, PyObject* const* given);

// A new reference; equal calls compare equal.
Ref MakeBoundCallObject(const BoundCall& call);
// BoundCall, bound_call, find_bound_call. Throws ErrorSet.
void AddBoundCallFunctions(PyObject* module);

}  // namespace anyop::python
