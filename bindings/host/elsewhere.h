// SPDX-License-Identifier: Apache-2.0
// Arguments and results of calls that are handed on to a framework's own operator.
#pragma once
#include "bindings/operators/op_object.h"
#include "host.h"

namespace anyop::python {

// The value of a parameter that the caller left out, as an object of that host.
Ref DefaultObject(const Host& host, const Parameter& param);
// The results of such a call, as ours returns them: a named tuple where there are several.
PyObject* NamedResults(OperatorInfo& info, Ref results);
// Result r of several. A proxy has as many as are asked for, and cannot be iterated.
Ref ResultOf(PyObject* results, int r);

}  // namespace anyop::python
