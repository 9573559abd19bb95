// SPDX-License-Identifier: Apache-2.0
#include "call.h"

#include <algorithm>
#include <vector>

#include "anyop/scope.h"
#include "bound_call.h"
#include "results.h"

namespace anyop::python {
namespace {

void RunWithoutLock(Operator& op, Plan& plan, CallMemory& memory, anyop_value* frame) {
  memory.CopyShapes();
  const WithoutLock released;
  Run(op, plan, frame);
}

// The tensors of a call, one for each input of its bound call.
Ref InputsOf(const OperatorInfo& info, const Slots& slots, const CallMemory& memory,
             const anyop_value* frame) {
  std::vector<PyObject*> inputs;  // borrowed
  for (int i = 0; i < info.n_params; ++i) {
    if (frame[i].tag == ANYOP_TENSOR) {
      inputs.push_back(slots[i]);
    } else if (frame[i].tag == ANYOP_TENSORS) {
      PyObject* elements = memory.ElementsOf(frame[i]);
      const Py_ssize_t n = PyTuple_GET_SIZE(elements);
      for (Py_ssize_t k = 0; k < n; ++k) inputs.push_back(PyTuple_GET_ITEM(elements, k));
    }
  }
  Ref tuple = Checked(PyTuple_New(Py_ssize_t(inputs.size())));
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(k), Py_NewRef(inputs[k]));
  }
  return tuple;
}

// A call that its framework makes. One that keeps calls as texts gets a bound call, made of what
// was converted here, so that nothing is converted again.
[[gnu::cold]] PyObject* HandOn(const Host& host, OperatorInfo& info, const Slots& slots,
                               const CallMemory& memory, const anyop_value* frame,
                               PyObject* const* given) {
  if (!host.takes_bound_calls()) return host.CallElsewhere(info, slots);
  const Ref call = BindCall(info, frame, given);
  const Ref tensors = InputsOf(info, slots, memory, frame);
  return host.CallBound(info, call.get(), tensors.get(), slots.out);
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
  if (!call.is_direct()) return HandOn(call.host(), info, slots, memory, frame, given);
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
  scope.policy(ToText(slots.policy, info.Message("policy").c_str()));
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
