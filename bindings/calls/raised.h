// SPDX-License-Identifier: Apache-2.0
// Exceptions of Python's on their way through the runtime, which knows codes and texts only.
#pragma once
#include <optional>
#include <utility>

#include "bindings/host/host.h"
#include "bindings/operators/op_object.h"

namespace anyop::python {

struct Raised {
  Ref type, value, trace;
  static Raised Take();
  void Restore() { PyErr_Restore(type.release(), value.release(), trace.release()); }

  // Lets the exception wait for the thread's adapter in C++, which knows no Python: it has an
  // operator in Python of its framework raise the exception (RestoreWaiting).
  void Wait();
  // False where nothing waits.
  static bool RestoreWaiting();
};

// The objects of a call of an operator whose kernel is a function of Python.
struct DirectArguments {
  const OperatorInfo& info;
  PyObject* const* args;
  Py_ssize_t n_args;
  PyObject* keywords;
  const Host& host;
};

// A call from Python that runs in this thread. What a function of Python raises within it may wait
// here until it returns. Needs Python's lock where it begins and ends.
class PythonCall {
 public:
  // is_plain: of one operator by itself, whose caller gets what its function raises as it is.
  explicit PythonCall(const DirectArguments* direct = nullptr, bool is_plain = false)
      : direct_(direct), is_plain_(is_plain), outer_(innermost) {
    innermost = this;
  }
  ~PythonCall() { innermost = outer_; }
  PythonCall(const PythonCall&) = delete;
  PythonCall& operator=(const PythonCall&) = delete;

  // Null where another operator was called, or a graph.
  const DirectArguments* direct(const OperatorInfo& info) const {
    return direct_ && &direct_->info == &info ? direct_ : nullptr;
  }
  // passes: the exception reaches the caller as it is; else it is the cause of the error of the
  // runtime, which says where it was raised.
  void Keep(Raised raised, bool passes) {
    raised_ = std::move(raised);
    passes_ = passes;
  }
  bool has_raised() const { return raised_.has_value(); }
  bool is_plain() const { return is_plain_; }
  // To be called with Python's exception of the runtime's error set: what was kept takes its place,
  // or becomes its cause.
  void Restore();

  static constinit thread_local PythonCall*
      innermost;  // null while Python code runs, or if C++ called

 private:
  const DirectArguments* direct_;
  const bool is_plain_;
  PythonCall* outer_;
  std::optional<Raised> raised_;
  bool passes_ = false;
};

// Runs f, a call from Python. What a function of Python raises within it passes as it is, or is the
// cause of the error.
template <class F>
void Raising(F&& f, bool is_plain = false) {
  PythonCall call(nullptr, is_plain);
  try {
    f();
  } catch (const Error&) {
    if (!call.has_raised()) throw;
    SetPythonError();
    call.Restore();
    throw ErrorSet{};
  }
}

}  // namespace anyop::python
