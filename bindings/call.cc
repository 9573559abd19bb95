// SPDX-License-Identifier: Apache-2.0
#include "call.h"

#include <bit>

#include "anyop/scope.h"

namespace anyop::python {
namespace {

constexpr double kReleaseNs = 5000;  // giving the lock back and taking it again costs 40 to 50 ns

// Gradients of absent arguments are left out. The caller leaves out others by writing False.
bool IsDeclined(const OperatorInfo& info, int result, const anyop_value* frame) {
  const std::uint32_t params = info.declines[result];
  return params && frame[std::countr_zero(params)].tag == ANYOP_NONE;
}

// The result arrays of one call, owned.
class Results {
 public:
  explicit Results(int n) : n_(n) {}
  ~Results() {
    for (int r = 0; r < n_; ++r) Py_XDECREF(object_[r]);
  }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  // Allocates what the caller did not give and did not decline.
  template <class Host>
  void Allocate(Host& host, const OperatorInfo& info, const Plan& plan, CallMemory& memory,
                anyop_value* frame, PyObject* const* given);
  // None, the array, or the named tuple. Gives up ownership.
  PyObject* Return(OperatorInfo& info);

 private:
  int n_;
  PyObject* object_[kMaxResults] = {};
};

template <class Host>
void Results::Allocate(Host& host, const OperatorInfo& info, const Plan& plan, CallMemory& memory,
                       anyop_value* frame, PyObject* const* given) {
  for (int r = 0; r < n_; ++r) {
    anyop_value& value = frame[info.n_params + r];
    if (given[r] && given[r] != Py_False) {
      Py_INCREF(given[r]);
      object_[r] = given[r];
    } else if (given[r] || IsDeclined(info, r, frame)) {
      Py_INCREF(Py_None);
      object_[r] = Py_None;
    } else {
      const ResultShape& shape = plan.results[r];
      View& view = memory.NextView();
      object_[r] = host.Allocate(shape.dtype, shape.rank, shape.shape, view).release();
      value.tag = ANYOP_TENSOR;
      value.t = &view.tensor;
    }
  }
}

PyObject* Results::Return(OperatorInfo& info) {
  if (n_ == 1) return std::exchange(object_[0], nullptr);
  if (n_ == 0) Py_RETURN_NONE;
  PyTypeObject* type = ResultType(info);
  PyObject* tuple = type->tp_alloc(type, n_);
  if (!tuple) throw ErrorSet{};
  for (int r = 0; r < n_; ++r) PyTuple_SET_ITEM(tuple, r, std::exchange(object_[r], nullptr));
  return tuple;
}

// Python's lock, given back while in scope.
class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  ~WithoutLock() { PyEval_RestoreThread(state_); }
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  PyThreadState* state_;
};

void RunWithoutLock(Operator& op, Plan& plan, CallMemory& memory, anyop_value* frame) {
  memory.CopyShapes();
  const WithoutLock released;
  Run(op, plan, frame);
}

template <class Host>
PyObject* CallWith(Host& host, TorchCall* torch, OperatorInfo& info, const Slots& slots) {
  anyop_value frame[kMaxParams + kMaxResults];
  CallMemory memory(torch);
  PyObject* given[kMaxResults];
  Gather(host, info, slots, memory, frame, given);
  if constexpr (Host::kIsTorch) {
    if (host.route() != TorchRoute::kFast) return CallTorchOperator(info, slots);
  }
  Plan& plan = *GetPlan(*info.op, frame);
  if (memory.has_copies() && plan.is_strict) [[unlikely]] {
    ThrowValueError(info.name +
                    ": an argument has a stride that is no multiple of its element, "
                    "but strict mode allows no copies. Try numpy.ascontiguousarray.");
  }
  Results results(info.n_results);
  results.Allocate(host, info, plan, memory, frame, given);
  if (plan.estimated_ns > kReleaseNs) {
    RunWithoutLock(*info.op, plan, memory, frame);
  } else {
    Run(*info.op, plan, frame);
  }
  if constexpr (Host::kIsTorch) host.Finish();
  return results.Return(info);
}

PyObject* Call(OperatorInfo& info, const Slots& slots) {
  if (IsForTorch(info, slots)) {
    TorchCall host;
    return CallWith(host, &host, info, slots);
  }
  NumpyCall host;
  return CallWith(host, nullptr, info, slots);
}

PyObject* CallWithPolicy(OperatorInfo& info, const Slots& slots) {
  Scope scope;
  scope.policy(ToText(slots.policy, (info.name + ": policy").c_str()));
  return Call(info, slots);
}

}  // namespace

PyObject* CallOperator(PyObject* self, PyObject* const* args, Py_ssize_t n_args,
                       PyObject* keywords) {
  OperatorInfo& info = *reinterpret_cast<OpObject*>(self)->info;
  try {
    Slots slots;
    Sort(info, args, n_args, keywords, slots);
    if (slots.policy) [[unlikely]]
      return CallWithPolicy(info, slots);
    return Call(info, slots);
  } catch (...) {
    return SetPythonError();
  }
}

}  // namespace anyop::python
