// SPDX-License-Identifier: Apache-2.0
#include "call.h"

#include <algorithm>

#include "anyop/scope.h"
#include "results.h"

namespace anyop::python {
namespace {

void RunWithoutLock(Operator& op, Plan& plan, CallMemory& memory, anyop_value* frame) {
  memory.CopyShapes();
  const WithoutLock released;
  Run(op, plan, frame);
}

template <class Call>
[[gnu::always_inline]] inline PyObject* CallWith(Call& call, OperatorInfo& info,
                                                 const Slots& slots) {
  anyop_value frame[kMaxParams + kMaxResults];
  View views[kMaxParams + kMaxResults];
  CallMemory memory(&call, views);
  PyObject* given[kMaxResults];
  Gather(call, info, slots, memory, frame, given);
  // Known by now: a mode of the thread or a host that sees all calls, a tensor that needs a
  // gradient or has no plain memory. Numbers are converted all the same, because a framework's own
  // operator takes some that are refused here: one that needs a gradient, one of a program that is
  // traced.
  if (!call.is_direct()) return call.host().CallElsewhere(info, slots);
  const HeldPlan plan = GetPlan(*info.op, frame);
  if (memory.has_copies() && plan->is_strict) [[unlikely]] {
    ThrowValueError(info.name +
                    ": an argument has a stride that is no multiple of its element, "
                    "but strict mode allows no copies. Try numpy.ascontiguousarray.");
  }
  PyObject* objects[kMaxResults];
  Results results(info.n_results, objects);
  results.Allocate(call, info, plan->results, memory, frame, given);
  [[maybe_unused]] const auto stream = call.OnStream();
  if (GivesLockBack(plan->estimated_ns, plan->device_kind)) {
    RunWithoutLock(*info.op, *plan, memory, frame);
  } else {
    Run(*info.op, *plan, frame);
  }
  call.Finish();
  return results.Return(info);
}

PyObject* Call(OperatorInfo& info, const Slots& slots) {
  return WithCall(HostOf(info, slots), [&](auto& call) { return CallWith(call, info, slots); });
}

// A call that was refused because of a type may be one that somebody else takes. Null, with the
// refusal, for any other call.
PyObject* CallRefused(OperatorInfo& info, const Slots& slots,
                      std::span<PyObject* const> arguments) {
  if (!PyErr_ExceptionMatches(g_errors.wrong_type)) return nullptr;
  PyObject *type, *refusal, *traceback;
  // Put aside: who looks for a taker asks objects for attributes, which clears the exception.
  PyErr_Fetch(&type, &refusal, &traceback);
  const CallTaker* taker = FindTaker(arguments);
  if (!taker) {
    PyErr_Restore(type, refusal, traceback);
    return nullptr;
  }
  const Ref owned[] = {Ref(type), Ref(refusal), Ref(traceback)};
  return Guarded([&] {
    if (slots.policy) {
      ThrowValueError(info.name +
                      ": policy is given, but a traced call follows the policy of the calls that "
                      "are made later. Try anyop.policy() around these.");
    }
    return taker->CallElsewhere(info, slots);
  });
}

PyObject* CallWithPolicy(OperatorInfo& info, const Slots& slots) {
  Scope scope;
  scope.policy(ToText(slots.policy, (info.name + ": policy").c_str()));
  return Call(info, slots);
}

}  // namespace

const Host& FindHostOf(const OperatorInfo& info, const Slots& slots) {
  for (int i = 0; i < info.n_params; ++i) {
    PyObject* object = IsTensor(info.params[std::size_t(i)].kind) ? slots[i] : nullptr;
    if (object && object != Py_None) return HostOfObject(object);
  }
  const Host& host = HostOfObject(slots.like);
  return &host == &NumpyHost() ? HostOfObject(slots.out) : host;
}

PyObject* CallOperator(PyObject* self, PyObject* const* args, Py_ssize_t n_args,
                       PyObject* keywords) {
  OperatorInfo& info = *reinterpret_cast<OpObject*>(self)->info;
  Slots slots;
  try {
    Sort(info, args, n_args, keywords, slots);
  } catch (...) {
    return SetPythonError();  // not CallRefused: no taker has parameters for such arguments
  }
  try {
    return slots.policy ? CallWithPolicy(info, slots) : Call(info, slots);
  } catch (...) {
    SetPythonError();
    return CallRefused(info, slots, AllOf(args, n_args, keywords));
  }
}

}  // namespace anyop::python
