// SPDX-License-Identifier: Apache-2.0
// The results of one call, as Python gets them.
#pragma once
#include <utility>

#include "convert.h"
#include "signature/check.h"

namespace anyop::python {

// Whether a call gives Python's lock back, which costs 40 to 50 ns, 1 % of a call of 5 us. A long
// call does, and one on a device, which may wait for work that another thread of Python lets go on.
inline bool GivesLockBack(double estimated_ns, bool is_on_device) {
  return estimated_ns > 5000 || is_on_device;
}

// Gradients of absent arguments are left out. The caller leaves out others by writing False.
inline bool IsDeclined(const OperatorInfo& info, int result, const anyop_value* frame) {
  const int param = info.op ? info.declined_without[result] : -1;  // a graph computes all results
  return param >= 0 && frame[param].tag == ANYOP_NONE;
}

// The result arrays of one call, owned. objects: places for n of them, the caller's.
class Results {
 public:
  Results(int n, PyObject** objects) : n_(n), objects_(objects) {
    for (int r = 0; r < n; ++r) objects[r] = nullptr;
  }
  ~Results() {
    for (int r = 0; r < n_; ++r) Py_XDECREF(objects_[r]);
  }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  // Allocates what the caller did not give and did not decline.
  template <class Call>
  [[gnu::always_inline]] void Allocate(Call& call, const OperatorInfo& info,
                                       const ResultShape* shapes, CallMemory& memory,
                                       anyop_value* frame, PyObject* const* given) {
    for (int r = 0; r < n_; ++r) {
      anyop_value& value = frame[info.n_params + r];
      if (given[r] && given[r] != Py_False) {
        Py_INCREF(given[r]);
        objects_[r] = given[r];
      } else if (given[r] || IsDeclined(info, r, frame)) {
        Py_INCREF(Py_None);
        objects_[r] = Py_None;
      } else {
        const ResultShape& shape = shapes[r];
        View& view = memory.NextView();
        objects_[r] = call.Allocate(shape.dtype, shape.rank, shape.shape, memory, view).release();
        value = TensorValue(&view.tensor);
      }
    }
  }

  // None, the array, or the named tuple. Gives up ownership.
  [[gnu::always_inline]] PyObject* Return(OperatorInfo& info) {
    if (n_ == 1) return std::exchange(objects_[0], nullptr);
    if (n_ == 0) Py_RETURN_NONE;
    return Tuple(ResultType(info));
  }
  // All in a tuple of this type. Gives up ownership.
  PyObject* Tuple(PyTypeObject* type) {
    PyObject* tuple = type->tp_alloc(type, n_);
    if (!tuple) throw ErrorSet{};
    for (int r = 0; r < n_; ++r) PyTuple_SET_ITEM(tuple, r, std::exchange(objects_[r], nullptr));
    return tuple;
  }

 private:
  int n_;
  PyObject** objects_;
};

// Python's lock, given back while in scope.
class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  ~WithoutLock() {
    WithPython([&] { PyEval_RestoreThread(state_); });
  }
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace anyop::python
