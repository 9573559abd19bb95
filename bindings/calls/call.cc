// SPDX-License-Identifier: Apache-2.0
#include "call.h"

#include <algorithm>

#include "anyop/scope.h"
#include "bindings/graphs/traced.h"
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

// A call that was refused because of a type may be one that a framework's own operator takes, a
// program that it traces. Null, with the refusal, for any other call.
PyObject* CallRefused(OperatorInfo& info, PyObject* const* args, Py_ssize_t n_args,
                      PyObject* keywords) {
  if (!PyErr_ExceptionMatches(g_errors.wrong_type)) return nullptr;
  PyObject *type, *refusal, *traceback;
  PyErr_Fetch(&type, &refusal, &traceback);  // looking for attributes would clear it
  const Py_ssize_t n_all = n_args + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
  const std::span<PyObject* const> all(args, std::size_t(n_all));
  const auto hosts = Hosts();
  const auto taker = std::find_if(hosts.begin(), hosts.end(),
                                  [&](const Host* host) { return host->TakesRefused(all); });
  if (taker == hosts.end()) {
    PyErr_Restore(type, refusal, traceback);
    return nullptr;
  }
  const Ref owned[] = {Ref(type), Ref(refusal), Ref(traceback)};
  return Guarded([&] {
    Slots slots;
    Sort(info, args, n_args, keywords, slots);
    if (slots.policy) {
      ThrowValueError(info.name +
                      ": policy is given, but a traced call follows the policy of the calls that "
                      "are made later. Try anyop.policy() around these.");
    }
    return (*taker)->CallElsewhere(info, slots);
  });
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
    SetPythonError();
    return CallRefused(info, args, n_args, keywords);
  }
}

}  // namespace anyop::python
