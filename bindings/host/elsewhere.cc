// SPDX-License-Identifier: Apache-2.0
#include "elsewhere.h"

namespace anyop::python {

Ref DefaultObject(const Host& host, const Parameter& param) {
  const anyop_value& v = param.default_value;
  switch (v.tag) {
    case ANYOP_BOOL:
      return Ref(PyBool_FromLong(long(v.i)));
    case ANYOP_INT:
      return Checked(PyLong_FromLongLong(v.i));
    case ANYOP_FLOAT:
      return Checked(PyFloat_FromDouble(v.f));
    case ANYOP_WORD:
      return Ref::Borrow(param.words[v.index].text);
    case ANYOP_DTYPE:
      return host.DTypeObject(DType(v.i));
    case ANYOP_INTS:
    case ANYOP_FLOATS: {
      Ref list = Checked(PyList_New(Py_ssize_t(v.count)));
      for (std::uint32_t i = 0; i < v.count; ++i) {
        PyObject* one =
            v.tag == ANYOP_INTS ? PyLong_FromLongLong(v.is[i]) : PyFloat_FromDouble(v.fs[i]);
        PyList_SET_ITEM(list.get(), Py_ssize_t(i), Checked(one).release());
      }
      return list;
    }
    default:
      return Ref::Borrow(Py_None);
  }
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
