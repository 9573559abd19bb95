// SPDX-License-Identifier: Apache-2.0
#include "call.h"

#include "anyop/scope.h"
#include "results.h"
#include "traced.h"

namespace anyop::python {
namespace {

void RunWithoutLock(Operator& op, Plan& plan, CallMemory& memory, anyop_value* frame) {
  memory.CopyShapes();
  const WithoutLock released;
  Run(op, plan, frame);
}

template <class Host>
PyObject* CallWith(Host& host, TorchCall* torch, OperatorInfo& info, const Slots& slots) {
  anyop_value frame[kMaxParams + kMaxResults];
  View views[kMaxParams + kMaxResults];
  CallMemory memory(torch, views);
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
  PyObject* objects[kMaxResults];
  Results results(info.n_results, objects);
  results.Allocate(host, info, plan.results, memory, frame, given);
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
  } catch (const FoundTraced&) {
    return RecordCall(info, args, n_args, keywords);
  } catch (...) {
    return SetPythonError();
  }
}

}  // namespace anyop::python
