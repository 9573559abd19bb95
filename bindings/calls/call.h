// SPDX-License-Identifier: Apache-2.0
// A call of an operator from Python.
#pragma once
#include "convert.h"
#include "room.h"

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
  PyObject* like = nullptr;
  PyObject** named = few;  // from n_args on, if there are keywords; a graph's call has more places
  PyObject* few[kMaxParams + kHostKeywords];

  // Parameter i, null if it is not given.
  PyObject* operator[](int i) const {
    return i < n_args ? args[i] : has_keywords ? named[i] : nullptr;
  }
};
// Of a call of a graph, which may have any number of parameters.
struct GraphSlots : Slots {
  explicit GraphSlots(const OperatorInfo& info) : room(std::size_t(info.n_params) + kHostKeywords) {
    named = room.data();
  }
  Room<PyObject*, kMaxParams + kHostKeywords> room;
};
[[noreturn]] void RefuseCount(const OperatorInfo& info, Py_ssize_t n_args);
[[noreturn]] void RefuseMissing(const OperatorInfo& info, const Parameter& param);
void SortKeywords(const OperatorInfo& info, PyObject* const* args, Py_ssize_t n_args,
                  PyObject* keywords, Slots& slots);
// given[r]: the array that the caller gives for result r, borrowed; null to allocate, False to
// leave out.
void Spread(const OperatorInfo& info, PyObject* out, PyObject** given);
[[noreturn]] void RefuseLeftOut(const OperatorInfo& info, int result);
inline void FindGiven(const OperatorInfo& info, PyObject* out, PyObject** given) {
  if (info.n_results != 1) {
    for (int r = 0; r < info.n_results; ++r) given[r] = nullptr;
    if (out) Spread(info, out, given);
    return;
  }
  given[0] = out;
  if (out == Py_False && !(info.op && info.is_declinable[0])) [[unlikely]]
    RefuseLeftOut(info, 0);
}

// Sorts positional and keyword arguments. Throws ErrorSet: too many, unknown, given twice.
inline void Sort(const OperatorInfo& info, PyObject* const* args, Py_ssize_t n_args,
                 PyObject* keywords, Slots& slots) {
  if (n_args > info.n_params) RefuseCount(info, n_args);
  slots.args = args;
  slots.n_args = int(n_args);
  slots.has_keywords = false;
  if (!keywords) return;
  // Keywords in signature order, as most calls have them, lie where positional arguments would.
  const int n_all = int(n_args + PyTuple_GET_SIZE(keywords));
  const auto keyword = [&](int i) { return PyTuple_GET_ITEM(keywords, i - n_args); };
  int i = int(n_args);
  while (i < n_all && i < info.n_params && keyword(i) == info.params[std::size_t(i)].name) ++i;
  if (i == n_all || (i + 1 == n_all && keyword(i) == g_host_keywords[kOut])) {
    slots.n_args = i;
    if (i < n_all && args[i] != Py_None) slots.out = args[i];
    return;
  }
  SortKeywords(info, args, n_args, keywords, slots);
}

// The host of the first tensor of the call, or of `like`. Starts that of a framework that was
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
// Python's only before it looks at the first tensor.
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
