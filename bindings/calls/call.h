// SPDX-License-Identifier: Apache-2.0
// A call of an operator from Python.
#pragma once
#include "bindings/host/slots.h"
#include "convert.h"

namespace anyop::python {

// METH_FASTCALL | METH_KEYWORDS; self is an OpObject.
PyObject* CallOperator(PyObject* self, PyObject* const* args, Py_ssize_t n_args,
                       PyObject* keywords);

// The host of the first tensor of the call, or of `like`. Starts the host of a framework that was
// imported without anyop noticing.
const Host& FindHostOf(const OperatorInfo& info, const Slots& slots);
inline const Host& HostOf(const OperatorInfo& info, const Slots& slots) {
  if (info.first_tensor >= 0) [[likely]] {
    PyObject* first = slots[info.first_tensor];
    if (first && Py_TYPE(first) == &PyArray_Type) return NumpyHost();
    if (first && Py_TYPE(first) == g_torch.tensor) return TorchHost();
  }
  return FindHostOf(info, slots);
}

// Fills the frame's parameters and given results, and what FindGiven tells of these. Runs code of
// Python's only before it looks at the first tensor (FillOrder). A list of tensors takes two steps:
// its elements are taken out, which may run such code, and viewed at the end.
template <class Call>
inline void Gather(Call& call, const OperatorInfo& info, const Slots& slots, CallMemory& memory,
                   anyop_value* frame, PyObject** given) {
  const int n = info.n_params;
  for (const auto& [at, i] : info.order) {
    const Parameter& param = *at;
    if (PyObject* object = slots[i]) {
      Convert(call, info, param, object, memory, frame[i]);
    } else if (param.is_required) [[unlikely]] {
      RefuseMissing(info, param);
    } else {
      frame[i] = param.default_value;
    }
  }
  FindGiven(info, slots.out, given);
  for (int r = 0; r < info.n_results; ++r) {
    if (given[r] && given[r] != Py_False && call.views_results()) {
      ConvertTensor(call, info.name.c_str(), info.result_names[std::size_t(r)], Access::kWrite,
                    given[r], memory, frame[n + r]);
    } else {
      frame[n + r] = {};
    }
  }
  if (memory.has_lists()) [[unlikely]]
    memory.ViewLists(info);
}

}  // namespace anyop::python
