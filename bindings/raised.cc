// SPDX-License-Identifier: Apache-2.0
#include "raised.h"

namespace anyop::python {

constinit thread_local PythonCall* PythonCall::innermost = nullptr;

Raised Raised::Take() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace && value) PyException_SetTraceback(value, trace);
  return {Ref(type), Ref(value), Ref(trace)};
}

}  // namespace anyop::python
