// SPDX-License-Identifier: Apache-2.0
// A call of an operator from Python.
#pragma once
#include "convert.h"

namespace anyop::python {

// METH_FASTCALL | METH_KEYWORDS; self is an OpObject.
PyObject* CallOperator(PyObject* self, PyObject* const* args, Py_ssize_t n_args,
                       PyObject* keywords);

// The arguments of a call, one per parameter and host keyword, borrowed; null where not given.
struct Slots {
  PyObject* object[kMaxParams + kHostKeywords];
  PyObject* out = nullptr;
  PyObject* policy = nullptr;
};
// Sorts positional and keyword arguments. Throws ErrorSet: too many, unknown, given twice.
void Sort(const OperatorInfo& info, PyObject* const* args, Py_ssize_t n_args, PyObject* keywords,
          Slots& slots);

// Fills the frame's parameters and given results. given[r]: the caller's array, null to allocate.
void Gather(const OperatorInfo& info, const Slots& slots, CallMemory& memory, anyop_value* frame,
            PyObject** given);

}  // namespace anyop::python
