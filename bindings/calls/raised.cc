// SPDX-License-Identifier: Apache-2.0
#include "raised.h"

#include <memory>

#include "runtime/plan/calling_host.h"

namespace anyop::python {

constinit thread_local PythonCall* PythonCall::innermost = nullptr;

Raised Raised::Take() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace && value) PyException_SetTraceback(value, trace);
  return {Ref(type), Ref(value), Ref(trace)};
}

void PythonCall::Restore() {
  if (!raised_) return;
  if (passes_) return raised_->Restore();
  Raised told = Raised::Take();
  PyObject* own = raised_->value.get();
  // Of an error that anyop made of the user's exception, the cause is that exception.
  Ref cause(PyErr_GivenExceptionMatches(own, g_errors.error) ? PyException_GetCause(own) : nullptr);
  if (!cause) cause = Ref::Borrow(own);
  PyException_SetCause(told.value.get(), cause.release());
  told.Restore();
}

namespace {
// A plain pointer: a thread ends without Python's lock, so no destructor may drop the exception.
constinit thread_local Raised* waiting = nullptr;
}  // namespace

void Raised::Wait() {
  delete std::exchange(waiting, new Raised(std::move(*this)));
  kernel_has_raised = true;
}

bool Raised::RestoreWaiting() {
  const std::unique_ptr<Raised> raised(std::exchange(waiting, nullptr));
  if (raised) raised->Restore();
  return bool(raised);
}

}  // namespace anyop::python
