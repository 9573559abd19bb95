// SPDX-License-Identifier: Apache-2.0
// The arguments of a call from Python, sorted by parameter.
#pragma once
#include <span>

#include "bindings/operators/op_object.h"
#include "bindings/room.h"

namespace anyop::python {

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
// The same for a call of a graph, which may have any number of parameters.
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
  given[0] = out;  // of the one result that most operators have, without a look into a tuple
  if (out == Py_False && !(info.op && info.is_declinable[0])) [[unlikely]]
    RefuseLeftOut(info, 0);
}

// All arguments of a call, those by keyword last.
inline std::span<PyObject* const> AllOf(PyObject* const* args, Py_ssize_t n_args,
                                        PyObject* keywords) {
  return {args, std::size_t(n_args + (keywords ? PyTuple_GET_SIZE(keywords) : 0))};
}

// Sorts positional and keyword arguments. Throws ErrorSet: too many, unknown, given twice.
inline void Sort(const OperatorInfo& info, PyObject* const* args, Py_ssize_t n_args,
                 PyObject* keywords, Slots& slots) {
  if (n_args > info.n_params) RefuseCount(info, n_args);
  slots.args = args;
  slots.n_args = int(n_args);
  slots.has_keywords = false;
  if (!keywords) return;
  // Keywords in signature order, as most calls have them, lie where positional arguments would, and
  // are used there without a table. Names of a call site are interned, so pointers are compared.
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

}  // namespace anyop::python
