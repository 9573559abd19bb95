// SPDX-License-Identifier: Apache-2.0
#include "slots.h"

#include <algorithm>

#include "host.h"

namespace anyop::python {
namespace {

// What follows "anyop." where the operator is found: "rms_norm", "ops.my_ops.scale".
std::string PathOf(const Operator& op) {
  return op.library == "anyop" ? op.contract->name : "ops." + op.name;
}

[[noreturn]] void RefuseKeyword(const OperatorInfo& info, PyObject* keyword) {
  std::vector<std::string> known;
  for (const Parameter& p : info.params) known.push_back(ToText(p.name, "a name"));
  for (int i = 0; i < kHostKeywords; ++i) {
    if (i == kOut && !info.n_results) continue;
    if (i == kLike && !info.takes_like) continue;
    known.push_back(ToText(g_host_keywords[i], "a name"));
  }
  const std::string text = ToNameShown(keyword);
  ThrowTypeError(info.Message("unknown argument '" + text + "'." + NearOrAll(text, known)));
}

}  // namespace

void RefuseCount(const OperatorInfo& info, Py_ssize_t n_args) {
  ThrowTypeError(
      info.Message(std::to_string(n_args) + " positional arguments are given, but " + "at most " +
                   std::to_string(info.n_params) + " are taken. Try " +
                   (info.op ? "help(anyop." + PathOf(*info.op) + ")." : "repr() of the graph.")));
}

void RefuseMissing(const OperatorInfo& info, const Parameter& param) {
  ThrowTypeError(info.Message(ToText(param.name, "a name") + " is missing."));
}

namespace {

[[noreturn]] void RefuseTwice(const OperatorInfo& info, PyObject* keyword) {
  ThrowTypeError(info.Message(ToNameShown(keyword) + " is given twice."));
}

// The slot of a keyword. Names of a call site are interned, and most often in signature order:
// the slot after the last one is looked at first.
int FindSlot(const OperatorInfo& info, PyObject* keyword, int first) {
  const int n = info.n_params;
  if (keyword == g_host_keywords[kOut]) return n + kOut;
  for (int i = first; i < n; ++i) {
    if (info.params[std::size_t(i)].name == keyword) return i;
  }
  for (int i = 0; i < first; ++i) {
    if (info.params[std::size_t(i)].name == keyword) return i;
  }
  for (int i = 0; i < kHostKeywords; ++i) {
    if (PyUnicode_Compare(g_host_keywords[i], keyword) == 0) return n + i;
  }
  for (int i = 0; i < n; ++i) {
    if (PyUnicode_Compare(info.params[std::size_t(i)].name, keyword) == 0) return i;
  }
  RefuseKeyword(info, keyword);
}

void CheckLike(const OperatorInfo& info, PyObject* like) {
  if (!info.takes_like) {
    ThrowTypeError(info.name +
                   ": like is given, but the tensors of the call say where results "
                   "belong. Leave it out.");
  }
  if (like == Py_None || HostOfTensor(like)) return;
  std::string known;
  for (const Host* host : Hosts()) {
    if (IsModule(like, host->names.module)) return;
    known += host->names.module + ", ";
  }
  ThrowTypeError(info.Message("like is " + Repr(like) + ", but must be " + known +
                              "or an array or tensor of theirs."));
}

}  // namespace

void RefuseLeftOut(const OperatorInfo& info, int result) {
  ThrowTypeError(info.Message(ToText(info.result_names[std::size_t(result)], "a name") +
                              " is False in out, but only results with '?' can be left out."));
}

void Spread(const OperatorInfo& info, PyObject* out, PyObject** given) {
  const int n = info.n_results;
  if (n == 0) ThrowTypeError(info.Message("out is given, but the operator has no result."));
  if (!PyTuple_Check(out) || PyTuple_GET_SIZE(out) != n) {
    std::string names;
    for (PyObject* name : info.result_names) {
      names += (names.empty() ? "" : ", ") + ToText(name, "a name");
    }
    ThrowTypeError(info.Message("out is " + Repr(out) + ", but must be a tuple of " +
                                std::to_string(n) + " (" + names +
                                "). Try None for those to allocate."));
  }
  for (int r = 0; r < n; ++r) {
    PyObject* array = PyTuple_GET_ITEM(out, r);
    given[r] = array == Py_None ? nullptr : array;
    if (array == Py_False && !(info.op && info.is_declinable[r])) RefuseLeftOut(info, r);
  }
}

// The attribute keeps GCC from making the loop that clears `named`, a few places, a call of memset.
[[gnu::optimize("no-tree-loop-distribute-patterns")]] void SortKeywords(const OperatorInfo& info,
                                                                        PyObject* const* args,
                                                                        Py_ssize_t n_args,
                                                                        PyObject* keywords,
                                                                        Slots& slots) {
  const int n = info.n_params;
  slots.has_keywords = true;
  for (int i = int(n_args); i < n + kHostKeywords; ++i) slots.named[i] = nullptr;
  int next = int(n_args);
  const Py_ssize_t n_keywords = PyTuple_GET_SIZE(keywords);
  for (Py_ssize_t k = 0; k < n_keywords; ++k) {
    PyObject* keyword = PyTuple_GET_ITEM(keywords, k);
    const int slot = FindSlot(info, keyword, std::min(next, n));
    if (slot < n_args || slots.named[slot]) RefuseTwice(info, keyword);
    slots.named[slot] = args[n_args + k];
    next = slot + 1;
  }
  PyObject* const* host = slots.named + n;
  if (host[kOut] && host[kOut] != Py_None) slots.out = host[kOut];
  if (host[kPolicy] && host[kPolicy] != Py_None) slots.policy = host[kPolicy];
  if (host[kLike]) CheckLike(info, host[kLike]);
  if (host[kLike] != Py_None) slots.like = host[kLike];
}

}  // namespace anyop::python
