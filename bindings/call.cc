// SPDX-License-Identifier: Apache-2.0
#include "call.h"

#include <algorithm>

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

// Whether an object has torch's protocol without being a tensor: a proxy of torch.fx, or a size of
// a program that is traced. Values of our own graphs have it only to refuse torch's functions.
bool IsTorchFunction(PyObject* object) {
  if (!object || IsTorchTensor(object) || IsTraced(object)) return false;
  return IsSymbolicNumber(object) || PyObject_HasAttrString(object, "__torch_function__");
}

// The same of an argument, which may be a list of such objects.
bool HasTorchFunction(PyObject* object) {
  if (!object || !(PyTuple_Check(object) || PyList_Check(object))) return IsTorchFunction(object);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
    if (IsTorchFunction(Ref::Borrow(PySequence_Fast_GET_ITEM(object, i)).get())) return true;
  }
  return false;
}

// A call that was refused because of a type: torch's operator asks such objects what they make of
// it. Null, with the refusal, for any other call.
PyObject* CallByTorchFunction(OperatorInfo& info, PyObject* const* args, Py_ssize_t n_args,
                              PyObject* keywords) {
  if (!g_torch.is_known || !PyErr_ExceptionMatches(g_errors.wrong_type)) return nullptr;
  PyObject *type, *refusal, *traceback;
  PyErr_Fetch(&type, &refusal, &traceback);  // looking for attributes would clear it
  const Py_ssize_t n_all = n_args + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
  if (std::none_of(args, args + n_all, HasTorchFunction)) {
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
    return CallTorchOperator(info, slots);
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
    return CallByTorchFunction(info, args, n_args, keywords);
  }
}

}  // namespace anyop::python
