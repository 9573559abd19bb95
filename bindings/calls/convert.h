// SPDX-License-Identifier: Apache-2.0
// Python objects to values of a call's frame.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "anyop/value.h"
#include "bindings/host/registered_host.h"
#include "bindings/numpy/numpy_view.h"
#include "bindings/operators/op_object.h"
#include "bindings/torch_unlinked/torch_api.h"

namespace anyop::python {

// Memory that the values of one call point into. On the stack; only calls with long lists use the
// heap.
class CallMemory {
 public:
  // host: the call's view of its host, null where it has no tensors to look at. views: one for
  // each tensor that is an argument or result of its own. Both stay the caller's.
  CallMemory(HostCall* host, View* views) : host_(host), first_view_(views), next_view_(views) {}
  const Host& host() const { return host_ ? host_->host() : NumpyHost(); }
  View& NextView() { return *next_view_++; }
  template <class T>
  T* Array(std::size_t n) {
    const std::size_t bytes = (n * sizeof(T) + 15) & ~std::size_t{15};
    if (used_ + bytes > sizeof(buffer_)) return static_cast<T*>(FromHeap(bytes));
    void* at = buffer_ + used_;
    used_ += bytes;
    return static_cast<T*>(at);
  }
  // Keeps an object until the call has ended.
  void Keep(Ref object) {
    if (object) more().kept.push_back(std::move(object));
  }
  // Copies shapes and strides out of the tensors, for the time in which other threads may reshape
  // them.
  void CopyShapes();
  // A parameter that is a list of tensors, of which only the tuple is there yet.
  struct TensorList {
    const Parameter* param;
    PyObject* tuple;
    anyop_value* value;
    View* views = nullptr;
  };
  void Add(TensorList list) { more().lists.push_back(list); }
  bool has_lists() const { return more_ && !more_->lists.empty(); }
  // Views the elements of all lists.
  void ViewLists(const OperatorInfo& info);
  // Whether an argument was copied because no tensor could describe it.
  bool has_copies() const { return has_copies_; }
  void set_has_copies() { has_copies_ = true; }

 private:
  // What few calls need.
  struct More {
    std::vector<Ref> kept;
    std::vector<std::unique_ptr<char[]>> heap;
    std::vector<TensorList> lists;
  };
  More& more() {
    if (!more_) more_ = std::make_unique<More>();
    return *more_;
  }
  void* FromHeap(std::size_t bytes);

  HostCall* const host_;
  View* const first_view_;
  View* next_view_;
  bool has_copies_ = false;
  std::size_t used_ = 0;
  std::unique_ptr<More> more_;
  alignas(16) char buffer_[2048];
};

// Fills `value` from `object`, which is not None unless the parameter is optional. May run code of
// Python's; of a list of tensors it only fixes the elements, and ViewLists must follow. Throws
// ErrorSet.
void ConvertOther(const OperatorInfo& info, const Parameter& param, PyObject* object,
                  CallMemory& memory, anyop_value& value);

// An array that no plain view describes.
void ConvertOtherArray(const ArgumentName& name, Access access, PyObject* object,
                       CallMemory& memory, View& view);

// One call whose tensors are NumPy arrays.
class NumpyCall final : public HostCall {
 public:
  NumpyCall() : HostCall(NumpyHost()) {}
  static constexpr bool is_direct() { return true; }
  static constexpr const char* reason() { return ""; }
  [[gnu::always_inline]] void Convert(const ArgumentName& name, Access access, PyObject* object,
                                      CallMemory& memory, View& view) {
    if (!ViewDense(object, access, view.tensor)) [[unlikely]]
      ConvertOtherArray(name, access, object, memory, view);
  }
  void ViewElement(const ArgumentName& name, Access access, PyObject* object, CallMemory& memory,
                   View& view) override {
    Convert(name, access, object, memory, view);
  }
  Ref Allocate(DType dtype, int rank, const std::int64_t* shape, CallMemory&, View& view) {
    return python::Allocate(dtype, rank, shape, view);
  }
  void Finish() {}
};

// f(call), a call of the given host. Those of NumPy and torch are types of their own, so that what
// they do is inlined.
template <class F>
decltype(auto) WithCall(const Host& host, F&& f) {
  if (&host == &NumpyHost()) {
    NumpyCall call;
    return f(call);
  }
  if (&host == &TorchHost()) {
    TorchCall call;
    return f(call);
  }
  RegisteredCall call(static_cast<const RegisteredHost&>(host));
  return f(call);
}

// A number of Python's or NumPy's as the kind that it is. what: begins messages, "graph: eps".
anyop_value ToNumberValue(PyObject* object, const std::string& what);

template <class Call>
[[gnu::always_inline]] inline void ConvertTensor(Call& call, const char* op, PyObject* name,
                                                 Access access, PyObject* object,
                                                 CallMemory& memory, anyop_value& value) {
  View& view = memory.NextView();
  call.Convert({op, name}, access, object, memory, view);
  value = TensorValue(&view.tensor);
}

template <class Call>
[[gnu::always_inline]] inline void Convert(Call& call, const OperatorInfo& info,
                                           const Parameter& param, PyObject* object,
                                           CallMemory& memory, anyop_value& value) {
  if (object == Py_None && param.is_optional) {
    value = {};
  } else if (param.kind == ParamKind::kTensor) [[likely]] {
    ConvertTensor(call, info.name.c_str(), param.name,
                  param.is_mut ? Access::kWrite : Access::kRead, object, memory, value);
  } else {
    ConvertOther(info, param, object, memory, value);
  }
}

}  // namespace anyop::python
