// SPDX-License-Identifier: Apache-2.0
// Python objects to values of a call's frame.
#pragma once
#include "anyop/value.h"
#include "bindings/host/call_memory.h"
#include "bindings/host/registered_host.h"
#include "bindings/numpy/numpy_view.h"
#include "bindings/operators/op_object.h"
#include "bindings/torch_unlinked/torch_view.h"

namespace anyop::python {

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
// they do is inlined: all of a call of NumPy arrays, add(a, b, out=c), takes 65 ns.
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
