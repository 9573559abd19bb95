// SPDX-License-Identifier: Apache-2.0
// Bound calls as Python sees them: _anyop.BoundCall.
#pragma once
#include "bindings/python.h"

namespace anyop {
class BoundCall;
}

namespace anyop::python {

// A new reference; equal calls compare equal.
Ref MakeBoundCallObject(const BoundCall& call);
// BoundCall, bound_call, find_bound_call. Throws ErrorSet.
void AddBoundCallFunctions(PyObject* module);

}  // namespace anyop::python
