// SPDX-License-Identifier: Apache-2.0
// A call of an operator from Python.
#pragma once
#include "convert.h"

namespace anyop::python {

// METH_FASTCALL | METH_KEYWORDS; self is an OpObject.
PyObject* CallOperator(PyObject* self, PyObject* const* args, Py_ssize_t n_args,
                       PyObject* keywords);

// The arguments of a call, borrowed: the positional ones where the caller has them, then those
// given by keyword, one place per parameter and host keyword.
struct Slots {
  PyObject* const* args;
  int n_args;
  bool has_keywords;
  PyObject* out = nullptr;
  PyObject* policy = nullptr;
  PyObject* named[kMaxParams + kHostKeywords];  // from n_args on, if there are keywords

  // Parameter i, null if it is not given.
  PyObject* operator[](int i) const {
    return i < n_args ? args[i] : has_keywords ? named[i] : nullptr;
  }
};
// Sorts positional and keyword arguments. Throws ErrorSet: too many, unknown, given twice.
void Sort(const OperatorInfo& info, PyObject* const* args, Py_ssize_t n_args, PyObject* keywords,
          Slots& slots);

// Fills the frame's parameters and given results. given[r]: the caller's array, null to allocate.
void Gather(const OperatorInfo& info, const Slots& slots, CallMemory& memory, anyop_value* frame,
            PyObject** given);

}  // namespace anyop::python
