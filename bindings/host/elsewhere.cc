// SPDX-License-Identifier: Apache-2.0
#include "elsewhere.h"

namespace anyop::python {

Ref DefaultObject(const Host& host, const Parameter& param) {
  const anyop_value& v = param.default_value;
  return v.tag == ANYOP_DTYPE ? host.DTypeObject(DType(v.i)) : ToObject(v);
}

Ref ResultOf(PyObject* results, int r) {
  return Checked(PyObject_GetItem(results, Checked(PyLong_FromLong(r)).get()));
}

PyObject* NamedResults(OperatorInfo& info, Ref results) {
  if (info.n_results < 2) return results.release();
  PyTypeObject* type = ResultType(info);
  Ref named = Checked(type->tp_alloc(type, info.n_results));
  for (int r = 0; r < info.n_results; ++r) {
    PyTuple_SET_ITEM(named.get(), r, ResultOf(results.get(), r).release());
  }
  return named.release();
}

}  // namespace anyop::python
