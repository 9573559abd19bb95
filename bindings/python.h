// SPDX-License-Identifier: Apache-2.0
// What every file of the Python host includes: the two C APIs, owned references, error classes.
#pragma once
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_1_25_API_VERSION
#define NPY_TARGET_VERSION NPY_1_25_API_VERSION  // one binary for NumPy 1.25 to 2.x
#define PY_ARRAY_UNIQUE_SYMBOL anyop_numpy_api
// All files share one table of NumPy's functions: module.cc, which fills it, defines this.
#ifndef ANYOP_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <cxxabi.h>
#include <numpy/arrayobject.h>

#include <string>
#include <string_view>
#include <utility>

#include "platform/error.h"

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

// Forgets the Python exception that is set, where another is raised in its place. Throws ErrorSet
// for one that must reach the caller: KeyboardInterrupt, SystemExit, RecursionError, MemoryError.
void ClearOrPass();

[[noreturn]] void SleepForever();
// Runs f, which waits for Python's lock or runs code of Python's. An interpreter that ends unwinds
// (pthread_exit) every other thread that asks for the lock, and unwinding through frames of C++
// ends the process. So the thread sleeps from then on, as Python 3.14 has it do by itself.
// (The reference that is caught is null, which the undefined sanitizer would report.)
template <class F>
[[gnu::no_sanitize("null")]] decltype(auto) WithPython(F&& f) {
  try {
    return f();
  } catch (const abi::__forced_unwind&) {
    SleepForever();
  }
}
// Throws a RecursionError where the thread's stack has no room for another call of Python code
// from a call of `op`: Python's own limit knows nothing of the frames of C++ between its own.
void CheckStack(const std::string& op);

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

// A function of whatever signature its flags name, as tables of methods hold it. By way of
// void (*)(), which GCC takes for any function: -Wcast-function-type warns of a direct cast.
template <class F>
PyCFunction AsMethod(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

// What is no UTF-8 becomes escapes.
Ref ToPython(std::string_view text);
// The text of a str; throws an error that names `what` for other objects, and for texts that UTF-8
// cannot hold.
std::string ToText(PyObject* object, const char* what);
// The text of a str for a message: with escapes for what UTF-8 cannot hold.
std::string ToNameShown(PyObject* text);
// The bytes of a path: str, bytes or os.PathLike. They need not be UTF-8.
std::string ToPath(PyObject* object, const char* what);
// repr(object), cut after 60 characters, for messages. No more than that is made of lists, texts
// and the like, which may be long.
std::string Repr(PyObject* object);

}  // namespace anyop::python
