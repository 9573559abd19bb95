// SPDX-License-Identifier: Apache-2.0
// The kernel of operators that are functions of Python: frame to objects, call, results back.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "anyop/tensor.h"
#include "bindings/calls/raised.h"
#include "define.h"
#include "platform/float_mode.h"
#include "runtime/plan/calling_host.h"

namespace anyop::python {
namespace {

const Host& HostOfCall(const OperatorInfo& info, PyObject* const* args, Py_ssize_t n_args,
                       PyObject* keywords) {
  Slots slots;
  Sort(info, args, n_args, keywords, slots);
  return HostOf(info, slots);
}

// Whose tensors a function gets. NumPy arrays, where a host cannot make tensors over memory that is
// lent.
const Host& HostFor(const DefinedFunction& function, HostName caller) {
  const Host* host = FindHost(function.takes ? function.takes : caller);
  return host && host->can_lend() ? *host : NumpyHost();
}

// Which of anyop's errors an exception is, for callers that cannot get it as it is.
int CodeOf(PyObject* error) {
  const std::pair<PyObject*, int> codes[] = {{g_errors.not_available, ANYOP_NOT_AVAILABLE},
                                             {PyExc_ValueError, ANYOP_INVALID_ARGUMENT},
                                             {PyExc_TypeError, ANYOP_INVALID_ARGUMENT},
                                             {PyExc_NotImplementedError, ANYOP_UNSUPPORTED},
                                             {PyExc_MemoryError, ANYOP_OUT_OF_MEMORY}};
  for (const auto& [type, code] : codes) {
    if (PyErr_GivenExceptionMatches(error, type)) return code;
  }
  return ANYOP_INTERNAL;
}

std::string TextOf(PyObject* object) {
  const Ref text(PyObject_Str(object));
  const char* s = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!s) PyErr_Clear();
  return s ? s : "?";
}

// Whether an exception must reach Python's caller as it is also through a graph, whose errors say
// where they happened.
bool MustPass(PyObject* error) {
  return !PyErr_GivenExceptionMatches(error, PyExc_Exception) ||
         PyErr_GivenExceptionMatches(error, PyExc_RecursionError);
}

class FunctionRun {
 public:
  FunctionRun(const Definition& definition, const anyop_context* context, const anyop_value* frame)
      : info_(*definition.info),
        definition_(definition),
        context_(context),
        frame_(frame),
        call_(std::exchange(PythonCall::innermost, nullptr)),
        direct_(call_ ? call_->direct(info_) : nullptr) {
    const HostName caller = direct_ ? direct_->host.name : calling_host;
    by_ = &definition.For(caller);
    host_ = &HostFor(*by_, caller);
    CopyResults();
  }
  ~FunctionRun() { PythonCall::innermost = call_; }
  FunctionRun(const FunctionRun&) = delete;
  FunctionRun& operator=(const FunctionRun&) = delete;

  int Run() {
    try {
      CheckStack(info_.name);
      Call();
    } catch (const ErrorSet&) {
      return Report(Raised::Take());
    } catch (const Error& e) {
      return context_->host->set_error(context_, e.code, e.what());
    }
    if (!lender_.has_open()) return ANYOP_OK;
    PyGC_Collect();  // an object that only a cycle still holds is not kept by the function
    if (!lender_.has_open()) return ANYOP_OK;
    const std::string text = NameOf(by_->function) +
                             "() keeps an argument, or a view of one, beyond its call, but the "
                             "memory is the caller's. Try a copy of what it keeps.";
    return context_->host->set_error(context_, ANYOP_INTERNAL, text.c_str());
  }

 private:
  void Call() {
    const int n = info_.n_params;
    std::optional<Slots> own;
    if (direct_) Sort(info_, direct_->args, direct_->n_args, direct_->keywords, own.emplace());
    Ref objects[kMaxParams + 1];
    PyObject* arguments[kMaxParams + 1];
    for (int i = 0; i < n; ++i) {
      objects[i] = Argument(info_.params[std::size_t(i)], frame_[i], own ? (*own)[i] : nullptr);
      arguments[i] = objects[i].get();
    }
    Ref results, keywords;
    if (by_->takes_out) {
      results = LendResults();
      objects[n] = info_.n_results == 1 ? Ref::Borrow(PyTuple_GET_ITEM(results.get(), 0))
                                        : Ref::Borrow(results.get());
      arguments[n] = objects[n].get();
      keywords = Checked(PyTuple_Pack(1, g_host_keywords[kOut]));
    }
    const Ref returned = Checked(WithPython([&] {
      return PyObject_Vectorcall(by_->function, arguments, std::size_t(n), keywords.get());
    }));
    if (by_->takes_out && returned.get() == Py_None) return;
    if (!results && CopyPlain(returned.get())) return;
    if (!results) results = LendResults();
    const Ref done = Checked(WithPython([&] {
      return PyObject_CallFunction(definition_.accept, "OsOO", by_->function, host_->name,
                                   returned.get(), results.get());
    }));
  }

  // The function may reshape arrays of its caller, whose sizes the frame points to.
  void CopyResults() {
    for (int r = 0; r < info_.n_results; ++r) {
      const anyop_value& v = frame_[info_.n_params + r];
      if (v.tag != ANYOP_TENSOR) continue;
      Result& to = results_[r];
      to.tensor = *v.t;
      std::copy_n(v.t->shape, v.t->ndim, to.shape);
      to.tensor.shape = to.shape;
      if (!v.t->strides) continue;
      std::copy_n(v.t->strides, v.t->ndim, to.strides);
      to.tensor.strides = to.strides;
    }
  }
  bool IsWanted(int r) const { return frame_[info_.n_params + r].tag == ANYOP_TENSOR; }
  const Tensor& ResultAt(int r) const { return static_cast<const Tensor&>(results_[r].tensor); }

  // The frequent case of what `accept` does: contiguous tensors of what was promised. All are
  // looked at before the first is copied, as `accept` starts anew where one does not fit.
  bool CopyPlain(PyObject* returned) {
    const int n = info_.n_results;
    if (n > 1 && !(PyTuple_Check(returned) && PyTuple_GET_SIZE(returned) == n)) return false;
    anyop_host_view from[kMaxResults];
    for (int r = 0; r < n; ++r) {
      PyObject* one = n == 1 ? returned : PyTuple_GET_ITEM(returned, r);
      if (!IsWanted(r) || !host_->ViewPlain(one, from[r])) return false;
      if (!IsAlike(from[r].tensor, ResultAt(r))) return false;
    }
    for (int r = 0; r < n; ++r) {
      const Tensor& to = ResultAt(r);
      const std::size_t bytes = std::size_t(to.size() * Bytes(to.dtype));
      // A function may return an argument, whose memory the result may have.
      std::memmove(to.base<char>(), static_cast<const Tensor&>(from[r].tensor).base<char>(), bytes);
    }
    return n > 0;
  }
  static bool IsAlike(const DLTensor& a, const DLTensor& b) {
    const bool is_alike = a.ndim == b.ndim && a.dtype.code == b.dtype.code &&
                          a.dtype.bits == b.dtype.bits &&
                          std::equal(a.shape, a.shape + a.ndim, b.shape);
    return is_alike && static_cast<const Tensor&>(a).is_contiguous() &&
           static_cast<const Tensor&>(b).is_contiguous();
  }

  Ref LendResults() {
    Ref results = Checked(PyTuple_New(info_.n_results));
    for (int r = 0; r < info_.n_results; ++r) {
      PyObject* one = IsWanted(r) ? lender_.Lend(*host_, ResultAt(r), Access::kWrite).release()
                                  : Py_NewRef(Py_None);
      PyTuple_SET_ITEM(results.get(), r, one);
    }
    return results;
  }

  // The caller's own object where the frame still points into it: unlike memory that is lent, the
  // function may keep that for good.
  Ref ToTensor(const DLTensor& t, PyObject* own, Access access) {
    const bool is_own = own && t.data && host_->DataOf(own) == BaseOf(t);
    if (!is_own && by_->is_trusted && host_->lends_again()) return LendAgain(*host_, t);
    if (!is_own) return lender_.Lend(*host_, t, access);
    return access == Access::kWrite ? Ref::Borrow(own) : host_->ReadOnly(own, t);
  }

  Ref TensorList(const anyop_value& v, PyObject* own, Access access) {
    const bool has_own = own && PySequence_Check(own) && PySequence_Size(own) == v.count;
    if (PyErr_Occurred()) PyErr_Clear();
    Ref list = Checked(PyList_New(v.count));
    for (Py_ssize_t i = 0; i < Py_ssize_t(v.count); ++i) {
      const Ref element(has_own ? PySequence_GetItem(own, i) : nullptr);
      if (PyErr_Occurred()) PyErr_Clear();
      PyList_SET_ITEM(list.get(), i, ToTensor(*v.ts[i], element.get(), access).release());
    }
    return list;
  }

  Ref Argument(const Parameter& param, const anyop_value& v, PyObject* own) {
    const Access access = param.is_mut ? Access::kWrite : Access::kRead;
    switch (v.tag) {
      case ANYOP_DTYPE:
        return host_->DTypeObject(DType(v.i));
      case ANYOP_TENSOR:
        return ToTensor(*v.t, own, access);
      case ANYOP_TENSORS:
        return TensorList(v, own, access);
      default:
        return ToObject(v);
    }
  }

  static std::string NameOf(PyObject* function) {
    const Ref name(PyObject_GetAttrString(function, "__name__"));
    if (!name) PyErr_Clear();
    return name ? TextOf(name.get()) : "its function";
  }

  // " (FILE, line 12)": where the exception came from.
  static std::string PlaceOf(PyObject* trace) {
    auto* last = reinterpret_cast<PyTracebackObject*>(trace);
    if (!last) return "";
    while (last->tb_next) last = last->tb_next;
    const Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(last->tb_frame)));
    const Ref file(PyObject_GetAttrString(code.get(), "co_filename"));
    const std::string path = TextOf(file.get());
    return " (" + path.substr(path.rfind('/') + 1) + ", line " +
           std::to_string(PyFrame_GetLineNumber(last->tb_frame)) + ")";
  }

  int Report(Raised raised) {
    const int code = CodeOf(raised.value.get());
    std::string text = TextOf(raised.value.get());
    if (PyErr_GivenExceptionMatches(raised.value.get(), g_errors.error)) {
      const std::string prefix = info_.name + ": ";  // which the runtime puts in front again
      if (text.starts_with(prefix)) text = text.substr(prefix.size());
    } else {
      const Ref type(PyObject_GetAttrString(raised.type.get(), "__name__"));
      text = NameOf(by_->function) + "() raised " + TextOf(type.get()) + ": " + text +
             PlaceOf(raised.trace.get()) + ".";
    }
    if (lender_.has_open()) ClearFrames(raised.value.get());
    const bool must_pass = MustPass(raised.value.get());
    const bool may_live = must_pass || !lender_.has_open();  // else it still holds what was lent
    const bool passes = direct_ || must_pass || (may_live && call_ && call_->is_plain());
    if (call_ && (passes || may_live)) {
      call_->Keep(std::move(raised), passes);
    } else if (const Host* host = may_live ? FindHost(calling_host) : nullptr;
               host && host->loses_exceptions()) {
      raised.Wait();
    }
    return context_->host->set_error(context_, code, text.c_str());
  }

  // The frames of its traceback, and of the exceptions that it was raised from, hold what was lent,
  // and may outlive the caller's memory.
  static void ClearFrames(PyObject* exception) {
    constexpr int kMost = 32;  // a bound: exceptions may be each other's context, in a circle
    const Ref module(PyImport_ImportModule("traceback"));
    Ref at = Ref::Borrow(module ? exception : nullptr);
    for (int i = 0; at && i < kMost; ++i) {
      const Ref trace(PyException_GetTraceback(at.get()));
      const Ref done(trace ? PyObject_CallMethod(module.get(), "clear_frames", "O", trace.get())
                           : nullptr);
      Ref next(PyException_GetCause(at.get()));
      if (!next) next = Ref(PyException_GetContext(at.get()));
      at = std::move(next);
    }
    if (PyErr_Occurred()) PyErr_Clear();
  }

  const OperatorInfo& info_;
  const Definition& definition_;
  const anyop_context* context_;
  const anyop_value* frame_;
  PythonCall* const call_;
  const DirectArguments* const direct_;
  const DefinedFunction* by_;
  const Host* host_;  // whose tensors it gets
  Lender lender_;
  struct Result {
    DLTensor tensor;
    std::int64_t shape[kMaxRank], strides[kMaxRank];
  } results_[kMaxResults];
};

}  // namespace

int RunFunction(const anyop_context* context, const anyop_value* frame) {
  if (!Py_IsInitialized()) {
    return context->host->set_error(context, ANYOP_NOT_AVAILABLE,
                                    "its kernel is a function of Python, which has ended.");
  }
  return WithPython([&] {
    // Kernels in C++ have the default mode. The function is code of the caller's, in its own mode.
    const CallersFloatMode mode;
    const PyGILState_STATE state = PyGILState_Ensure();
    const auto& definition = *static_cast<const Definition*>(context->data);
    const int code = definition.info ? FunctionRun(definition, context, frame).Run()
                                     : context->host->set_error(context, ANYOP_INTERNAL,
                                                                "it is not defined to its end.");
    PyGILState_Release(state);
    return code;
  });
}

PyObject* CallDefined(PyObject* self, PyObject* const* args, Py_ssize_t n_args,
                      PyObject* keywords) {
  const OperatorInfo& info = *reinterpret_cast<OpObject*>(self)->info;
  return Guarded([&] {
    const Host& host = HostOfCall(info, args, n_args, keywords);
    const DirectArguments arguments{info, args, n_args, keywords, host};
    PythonCall call(&arguments);
    PyObject* result = CallOperator(self, args, n_args, keywords);
    if (!result) call.Restore();
    return result;
  });
}

}  // namespace anyop::python
