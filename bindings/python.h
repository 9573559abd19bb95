// SPDX-License-Identifier: Apache-2.0
// What every file of the Python host includes: the two C APIs, owned references, error classes.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_1_25_API_VERSION
#define NPY_TARGET_VERSION NPY_1_25_API_VERSION  // one binary for NumPy 1.25 to 2.x
#define PY_ARRAY_UNIQUE_SYMBOL anyop_numpy_api
#ifndef ANYOP_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include <string>
#include <string_view>
#include <utility>

#include "runtime/error.h"

namespace anyop::python {

// An owned reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  static Ref Borrow(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Thrown where a Python exception is set already: the way out of nested conversions.
struct ErrorSet {};

// Takes ownership; throws ErrorSet for null.
inline Ref Checked(PyObject* owned) {
  if (!owned) throw ErrorSet{};
  return Ref(owned);
}

// The exception classes of anyop, also members of the module.
struct ErrorClasses {
  PyObject* error = nullptr;
  PyObject* invalid_argument = nullptr;  // also ValueError
  PyObject* wrong_type = nullptr;        // also TypeError
  PyObject* unsupported = nullptr;       // also NotImplementedError
  PyObject* not_available = nullptr;     // also RuntimeError
  PyObject* out_of_memory = nullptr;     // also MemoryError
  PyObject* internal = nullptr;          // also RuntimeError
};
extern ErrorClasses g_errors;
// Makes the classes and adds them to `module`. Throws ErrorSet.
void AddErrorClasses(PyObject* module);

// Sets the Python exception that the exception being handled stands for; returns null.
PyObject* SetPythonError();

[[noreturn]] void ThrowValueError(const std::string& text);
[[noreturn]] void ThrowTypeError(const std::string& text);

// Runs f, turning C++ exceptions into Python's; f returns PyObject*.
template <class F>
PyObject* Guarded(F&& f) {
  try {
    return f();
  } catch (...) {
    return SetPythonError();
  }
}

Ref ToPython(std::string_view text);
// The text of a str; throws a TypeError that names `what` for other objects.
std::string ToText(PyObject* object, const char* what);
// repr(object), cut after 60 characters, for messages.
std::string Repr(PyObject* object);

}  // namespace anyop::python
