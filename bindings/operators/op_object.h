// SPDX-License-Identifier: Apache-2.0
// An operator as Python sees it: the `self` of a real builtin function.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "bindings/python.h"
#include "runtime/run/call.h"

namespace anyop::python {

struct Word {
  PyObject* text;  // interned, so that a literal of the caller is the same object
  anyop_value value;
};

struct Parameter {
  PyObject* name;  // interned
  ParamKind kind;
  bool is_optional;  // None is accepted
  bool is_required;  // no default
  bool is_mut;
  anyop_value default_value;
  std::vector<Word> words;
};

// Keyword arguments that every operator has, after its parameters.
enum { kOut, kPolicy, kLike, kHostKeywords };
extern PyObject* g_host_keywords[kHostKeywords];

// Made once per operator and never freed: builtin functions point into it.
struct OperatorInfo {
  Operator* op = nullptr;
  std::string name;
  int n_params = 0, n_results = 0;
  int first_tensor = -1;    // the first parameter that is a tensor
  bool takes_like = false;  // no tensor is required, so a call may not say which host it is for
  std::vector<Parameter> params;
  struct Place {
    const Parameter* param;
    int index;
  };
  std::vector<Place> order;             // in which a call converts them: see FillOrder
  std::vector<PyObject*> result_names;  // interned
  bool is_declinable[kMaxResults];
  std::int8_t declined_without[kMaxResults];  // left out if this parameter is absent; -1: none
  PyTypeObject* result_type = nullptr;  // the named tuple of several results; made at first use
  PyMethodDef method{};
  std::string python_name, doc;

  std::string Message(const std::string& text) const { return name + ": " + text; }
};

// Tensors last. What converts the others may run code of Python's (__index__, __float__, __iter__),
// which may reshape arrays and free their memory: no tensor is looked at before all of it has run.
void FillOrder(OperatorInfo& info);

PyObject* Intern(std::string_view text);

struct OpObject {
  PyObject_HEAD OperatorInfo* info;
};
extern PyTypeObject* g_op_type;

// A list of what `convert` makes of each item.
template <class T, class F>
Ref ListOf(const T* items, std::size_t n, F convert) {
  Ref list = Checked(PyList_New(Py_ssize_t(n)));
  for (std::size_t i = 0; i < n; ++i) {
    PyList_SET_ITEM(list.get(), Py_ssize_t(i), convert(items[i]).release());
  }
  return list;
}
// The object of a value that is neither a tensor nor a dtype.
Ref ToObject(const anyop_value& value);

// The builtin function of an operator. A new reference.
Ref MakeFunction(Operator& op);
// The operator behind a builtin function or a name. Throws ErrorSet or Error.
OperatorInfo& ToOperator(PyObject* function_or_name);
// Functions by full name, those of libraries loaded since the last call included. Borrowed.
PyObject* Functions();

// What a builtin function calls. info: of the operator, for which the function is made.
using CallFunction = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
using ChooseCall = CallFunction (*)(OperatorInfo& info);
void InitOpType(ChooseCall choose);

// "(x, weight=None, eps=1e-06, *, out=None)", "" if Python could not parse it.
std::string TextSignature(const OperatorInfo& info);
// What help() shows.
std::string DocText(const Operator& op);

// The named tuple type of an operator with several results. Throws ErrorSet.
PyTypeObject* ResultType(OperatorInfo& info);

}  // namespace anyop::python
