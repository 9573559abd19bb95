// SPDX-License-Identifier: Apache-2.0
#include <numpy/arrayscalars.h>

#include <cstring>
#include <string>

#include "anyop/scope.h"
#include "bindings/module_functions.h"
#include "hosting/call_text.h"
#include "platform/error.h"
#include "platform/threads.h"

namespace anyop::python {
namespace {

// A scope's state travels through Python as bytes: Python's `with` blocks need not nest like C++'s.
PyObject* ToBytes(const ScopeState& state) {
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(&state), sizeof(state));
}

int ToThreads(PyObject* object) {
  const Ref number(PyNumber_Index(object));  // also of NumPy's integers
  if (!number) {
    PyErr_Clear();
    ThrowTypeError("threads is " + Repr(object) + ", but must be an int.");
  }
  int overflow = 0;
  const long n = PyLong_AsLongAndOverflow(number.get(), &overflow);
  if (overflow || n < 1 || n > kMaxThreads) {
    Fail(ANYOP_INVALID_ARGUMENT, "the number of threads is " + Repr(object) +
                                     ", but must be 1 to " + std::to_string(kMaxThreads) + ".");
  }
  return int(n);
}

bool ToFlag(PyObject* object, const char* what) {
  if (PyBool_Check(object)) return object == Py_True;
  if (PyArray_IsScalar(object, Bool)) return PyObject_IsTrue(object) == 1;
  ThrowTypeError(std::string(what) + " is " + Repr(object) + ", but must be True or False.");
}

DataChecks ToDataChecks(PyObject* object) {
  const std::string word = ToText(object, "data_checks");
  if (word == "device") return DataChecks::kOnDevice;
  if (word == "host") return DataChecks::kOnHost;
  if (word == "trusted") return DataChecks::kTrusted;
  Fail(ANYOP_INVALID_ARGUMENT,
       "data_checks is '" + word + "', but must be 'device', 'host' or 'trusted'.");
}

// enter_scope(policy, strict, batch_invariant, threads, data_checks, fallback_to_host), None or
// nothing for "as it is"; returns what leave_scope takes.
PyObject* EnterScope(PyObject*, PyObject* const* args, Py_ssize_t n_args) {
  return Guarded([&] {
    if (n_args > 6) ThrowTypeError("enter_scope takes at most 6 arguments.");
    PyObject* given[6];
    for (Py_ssize_t i = 0; i < 6; ++i) given[i] = i < n_args ? args[i] : Py_None;
    const ScopeState before = CurrentScope();
    Ref saved = Checked(ToBytes(before));
    ScopeState inside;
    {
      Scope scope;
      if (given[0] != Py_None) scope.policy(ToText(given[0], "policy"));
      if (given[1] != Py_None) scope.strict(ToFlag(given[1], "strict"));
      if (given[2] != Py_None) scope.batch_invariant(ToFlag(given[2], "batch_invariant"));
      if (given[3] != Py_None) scope.threads(ToThreads(given[3]));
      if (given[4] != Py_None) scope.data_checks(ToDataChecks(given[4]));
      if (given[5] != Py_None) scope.fallback_to_host(ToFlag(given[5], "fallback_to_host"));
      inside = CurrentScope();
    }
    SetScope(inside);  // again, because the end of `scope` has brought back the state before
    return saved.release();
  });
}

PyObject* LeaveScope(PyObject*, PyObject* saved) {
  return Guarded([&]() -> PyObject* {
    if (!PyBytes_Check(saved) || PyBytes_GET_SIZE(saved) != sizeof(ScopeState)) {
      ThrowTypeError("leave_scope takes what enter_scope returned.");
    }
    ScopeState state;
    std::memcpy(&state, PyBytes_AS_STRING(saved), sizeof(state));
    SetScope(state);
    Py_RETURN_NONE;
  });
}

PyObject* GetScopeText(PyObject*, PyObject*) {
  return Guarded([] { return ToPython(ScopeText(CurrentScope())).release(); });
}

PyObject* IsStrict(PyObject*, PyObject*) {
  return Guarded([] { return PyBool_FromLong(CurrentScope().is_strict); });
}

PyObject* SetPolicy(PyObject*, PyObject* text) {
  return Guarded([&]() -> PyObject* {
    SetProcessPolicy(ToText(text, "policy"));
    Py_RETURN_NONE;
  });
}

PyObject* GetPolicy(PyObject*, PyObject*) {
  return Guarded([] { return ToPython(ProcessPolicy()).release(); });
}

PyObject* SetThreadCount(PyObject*, PyObject* n) {
  return Guarded([&]() -> PyObject* {
    SetNumThreads(ToThreads(n));
    Py_RETURN_NONE;
  });
}

PyObject* GetThreads(PyObject*, PyObject*) {
  return Guarded([] { return PyLong_FromLong(NumThreads()); });
}

PyMethodDef g_scope_methods[] = {
    {"enter_scope", AsMethod(&EnterScope), METH_FASTCALL, nullptr},
    {"leave_scope", LeaveScope, METH_O, nullptr},
    {"scope_text", GetScopeText, METH_NOARGS,
     "scope_text($module, /)\n--\n\nHow the text of a call ends that is bound in this thread's "
     "scope; '' for the default one."},
    {"is_strict", IsStrict, METH_NOARGS,
     "is_strict($module, /)\n--\n\nWhether this thread is inside strict()."},
    {"set_policy", SetPolicy, METH_O,
     "set_policy($module, text, /)\n--\n\nSets the policy of the whole process, under every "
     "policy() block; '' resets it."},
    {"get_policy", GetPolicy, METH_NOARGS,
     "get_policy($module, /)\n--\n\nThe policy of the whole process."},
    {"set_num_threads", SetThreadCount, METH_O,
     "set_num_threads($module, n, /)\n--\n\nSets how many threads an operator may use."},
    {"get_num_threads", GetThreads, METH_NOARGS,
     "get_num_threads($module, /)\n--\n\nHow many threads an operator may use."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddScopeFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_scope_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
