// SPDX-License-Identifier: Apache-2.0
// What calls have in common that a framework's own operator makes.
#pragma once
#include "bindings/operators/op_object.h"
#include "host.h"

namespace anyop::python {

// The value of a parameter that the caller left out, as an object of that host.
Ref DefaultObject(const Host& host, const Parameter& param);
// What such a call returned, as the operator returns it: a named tuple where there are several.
PyObject* NamedResults(OperatorInfo& info, Ref results);
// Result r of several. A proxy has as many as are asked for, and cannot be iterated.
Ref ResultOf(PyObject* results, int r);

}  // namespace anyop::python
