// SPDX-License-Identifier: Apache-2.0
#include <new>

#include "traced.h"

namespace anyop::python {

ErrorClasses g_errors;

namespace {

PyObject* AddClass(PyObject* module, const char* name, PyObject* base, const char* doc) {
  const std::string full = std::string("anyop.") + name;
  Ref bases = g_errors.error ? Checked(PyTuple_Pack(2, g_errors.error, base))
                             : Checked(PyTuple_Pack(1, base));
  Ref made = Checked(PyErr_NewExceptionWithDoc(full.c_str(), doc, bases.get(), nullptr));
  if (PyModule_AddObjectRef(module, name, made.get()) < 0) throw ErrorSet{};
  return made.release();
}

PyObject* ClassOf(int code) {
  switch (code) {
    case ANYOP_INVALID_ARGUMENT:
      return g_errors.invalid_argument;
    case ANYOP_UNSUPPORTED:
      return g_errors.unsupported;
    case ANYOP_NOT_AVAILABLE:
      return g_errors.not_available;
    case ANYOP_OUT_OF_MEMORY:
      return g_errors.out_of_memory;
    default:
      return g_errors.internal;
  }
}

}  // namespace

void AddErrorClasses(PyObject* module) {
  ErrorClasses& e = g_errors;
  e.error = AddClass(module, "Error", PyExc_Exception, "What anyop raises.");
  e.invalid_argument =
      AddClass(module, "InvalidArgument", PyExc_ValueError, "The call is wrong: a value.");
  e.wrong_type = AddClass(module, "WrongType", PyExc_TypeError,
                          "The call is wrong: a type, or an argument missing or unknown.");
  e.unsupported = AddClass(module, "Unsupported", PyExc_NotImplementedError,
                           "The call is right, but no kernel takes it.");
  e.not_available = AddClass(module, "NotAvailable", PyExc_RuntimeError,
                             "A file, library, version or compiler is missing.");
  e.out_of_memory =
      AddClass(module, "OutOfMemory", PyExc_MemoryError, "Memory for a call is missing.");
  e.internal = AddClass(module, "Internal", PyExc_RuntimeError,
                        "A defect of anyop or of an operator. Please report it.");
}

PyObject* SetPythonError() {
  try {
    throw;
  } catch (const ErrorSet&) {
  } catch (const FoundTraced&) {
    PyErr_SetString(g_errors.wrong_type,
                    "a value of a graph under construction is given, but only operators take "
                    "these. Try it outside of the graph's function.");
  } catch (const Error& e) {
    PyErr_SetString(ClassOf(e.code), e.what());
  } catch (const std::bad_alloc&) {
    PyErr_SetString(g_errors.out_of_memory, "out of memory.");
  } catch (const std::exception& e) {
    PyErr_SetString(g_errors.internal, e.what());
  } catch (...) {
    PyErr_SetString(g_errors.internal, "something unknown was thrown.");
  }
  return nullptr;
}

void ThrowValueError(const std::string& text) {
  PyErr_SetString(g_errors.invalid_argument, text.c_str());
  throw ErrorSet{};
}

void ThrowTypeError(const std::string& text) {
  PyErr_SetString(g_errors.wrong_type, text.c_str());
  throw ErrorSet{};
}

Ref ToPython(std::string_view text) {
  return Checked(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "replace"));
}

std::string ToText(PyObject* object, const char* what) {
  if (!PyUnicode_Check(object)) {
    ThrowTypeError(std::string(what) + " is " + Repr(object) + ", but must be a str.");
  }
  Py_ssize_t n = 0;
  const char* s = PyUnicode_AsUTF8AndSize(object, &n);
  if (!s) throw ErrorSet{};
  return std::string(s, std::size_t(n));
}

std::string Repr(PyObject* object) {
  const Ref repr(PyObject_Repr(object));
  Py_ssize_t n = 0;
  const char* s = repr ? PyUnicode_AsUTF8AndSize(repr.get(), &n) : nullptr;
  if (!s) {
    PyErr_Clear();
    return std::string("a ") + Py_TYPE(object)->tp_name;
  }
  std::string text(s, std::size_t(n));
  constexpr std::size_t kLongest = 60;
  if (PyUnicode_GET_LENGTH(repr.get()) > Py_ssize_t(kLongest)) {
    const Ref cut(PyUnicode_Substring(repr.get(), 0, kLongest));
    const char* t = cut ? PyUnicode_AsUTF8(cut.get()) : nullptr;
    if (!t) PyErr_Clear();
    text = std::string(t ? t : "") + "...";
  }
  return text;
}

}  // namespace anyop::python
