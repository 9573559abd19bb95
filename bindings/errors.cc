// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

#include "python.h"

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

// Texts may show bytes of files, which need not be UTF-8.
void SetError(PyObject* type, const char* text) {
  const Ref object(PyUnicode_DecodeUTF8(text, Py_ssize_t(std::strlen(text)), "backslashreplace"));
  if (object) PyErr_SetObject(type, object.get());
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

[[gnu::no_sanitize("null")]] PyObject* SetPythonError() {
  try {
    throw;
  } catch (const abi::__forced_unwind&) {
    SleepForever();
  } catch (const ErrorSet&) {
  } catch (const Error& e) {
    SetError(ClassOf(e.code), e.what());
  } catch (const std::bad_alloc&) {
    PyErr_SetString(g_errors.out_of_memory, "out of memory.");
  } catch (const std::exception& e) {
    SetError(g_errors.internal, e.what());
  } catch (...) {
    PyErr_SetString(g_errors.internal, "something unknown was thrown.");
  }
  return nullptr;
}

void ThrowValueError(const std::string& text) {
  SetError(g_errors.invalid_argument, text.c_str());
  throw ErrorSet{};
}

void ThrowTypeError(const std::string& text) {
  SetError(g_errors.wrong_type, text.c_str());
  throw ErrorSet{};
}

void ClearOrPass() {
  // These two are Exceptions, unlike KeyboardInterrupt and SystemExit, so they are named.
  PyObject* const passing[] = {PyExc_RecursionError, PyExc_MemoryError};
  for (PyObject* type : passing) {
    if (PyErr_ExceptionMatches(type)) throw ErrorSet{};
  }
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) throw ErrorSet{};
  PyErr_Clear();
}

void SleepForever() {
  for (;;) pause();
}

namespace {

// The lowest address of this thread's stack that a call of Python code may begin at. 0, which lies
// below every address, where the system does not tell: then no call is refused.
std::uintptr_t LowestOfStack() {
  constexpr std::size_t kRoom = std::size_t{512} << 10;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes)) return 0;
  void* begin = nullptr;
  std::size_t size = 0, guard = 0;
  const bool is_known = !pthread_attr_getstack(&attributes, &begin, &size) &&
                        !pthread_attr_getguardsize(&attributes, &guard);
  pthread_attr_destroy(&attributes);
  if (!is_known) return 0;
  // A thread may have been started with a stack of less than kRoom: a quarter of it is kept then.
  return reinterpret_cast<std::uintptr_t>(begin) + guard + std::min(kRoom, size / 4);
}

}  // namespace

void CheckStack(const std::string& op) {
  // Asked once: of the main thread glibc finds it by reading /proc/self/maps.
  static thread_local const std::uintptr_t lowest = LowestOfStack();
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (here > lowest) [[likely]]
    return;
  PyErr_SetString(PyExc_RecursionError,
                  (op + ": Python code that the call runs makes such calls in turn, but the stack "
                        "of this thread has no room for more. Try fewer levels.")
                      .c_str());
  throw ErrorSet{};
}

}  // namespace anyop::python
