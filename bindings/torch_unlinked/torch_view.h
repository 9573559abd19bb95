// SPDX-License-Identifier: Apache-2.0
// PyTorch's tensors as a call sees them: read in place, or left to torch's dispatcher.
#pragma once
#include <cstdint>

#include "anyop/dtype.h"
#include "anyop/signature.h"
#include "anyop/value.h"
#include "bindings/numpy/numpy_view.h"
#include "bindings/python.h"
#include "torch_calibration.h"
#include "torch_symbols.h"
#include "torch_types.h"

namespace anyop::python {

// Why a call with torch tensors goes through the dispatcher. Static text.
enum class TorchRoute : std::uint8_t {
  kFast,
  kNotCalibrated,
  kModes,         // a dispatch mode, functorch, tracing, autocast ...
  kFunctionMode,  // torch.overrides, `with torch.device(...)`
  kForwardAD,
  kProfiler,
  kSubclass,
  kKeys,  // another device or layout, a conjugate, negative, quantized or wrapped tensor
  kGrad,
  kNoMemory,  // storage that was resized to nothing
};
const char* Describe(TorchRoute route);

// A tensor of inference mode that is written outside of it.
[[noreturn]] void RefuseInference(const ArgumentName& name);

bool ForwardADIsOn();
inline bool NeedsGrad(const void* impl) {
  return g_torch_functions.requires_grad(impl) && g_torch_functions.is_grad_enabled();
}

// One call's view of torch: what holds for the thread, and the first reason that a tensor gave for
// the dispatcher.
class TorchCall final : public HostCall {
 public:
  TorchCall();
  // Why this call may not go straight to the kernel.
  TorchRoute route() const { return route_; }
  bool is_direct() const { return route_ == TorchRoute::kFast; }
  const char* reason() const { return python::Describe(route_); }
  // The call is looked at and not made: its tensors may lie on a device, where a call would need
  // torch's own stream and memory.
  void Describe() { is_described_ = true; }
  void PassProfiler() {
    if (route_ == TorchRoute::kProfiler) route_ = TorchRoute::kFast;
  }

  [[gnu::always_inline]] void Convert(const ArgumentName& name, Access access, PyObject* object,
                                      CallMemory&, View& view) {
    Convert(name, access, object, view);
  }
  void Convert(const ArgumentName& name, Access access, PyObject* object, View& view);
  void ViewElement(const ArgumentName& name, Access access, PyObject* object, CallMemory&,
                   View& view) override {
    Convert(name, access, object, view);
  }
  // A fresh tensor for a result, and its view.
  Ref Allocate(DType dtype, int rank, const std::int64_t* shape, CallMemory&, View& view) {
    return Allocate(dtype, rank, shape, view);
  }
  Ref Allocate(DType dtype, int rank, const std::int64_t* shape, View& view);
  // Gives tensors that were written a new version, by which autograd knows.
  void Finish();

 private:
  void Leave(TorchRoute route) {
    if (route_ == TorchRoute::kFast) route_ = route;
  }
  TorchRoute ThreadRoute();
  // A tensor with keys that no plain CPU tensor has.
  void ConvertOther(const ArgumentName& name, PyObject* object, View& view);
  void MarkWritten(PyObject* object, const ArgumentName& name, std::uint64_t keys, DLTensor& t) {
    const void* handle = TorchHandle(object);
    const bool is_inference = g_torch_fast.IsInference(keys);
    if (is_inference && !is_inference_) RefuseInference(name);
    if (!is_inference) AddWritten(handle);  // an inference tensor has no version
    // Asked of torch, which un-shares copy-on-write memory: until then the address is shared.
    if (g_torch_functions.data_ptr(handle, &t.data)) [[unlikely]]
      Leave(TorchRoute::kNoMemory);
  }
  // A call of a graph or with a list may write more tensors than there is room for: those get their
  // new version now, before they are written.
  void AddWritten(const void* handle) {
    if (n_written_ < kFewWritten) [[likely]] {
      written_[n_written_++] = handle;
    } else {
      g_torch_functions.bump_version(handle);
    }
  }

  static constexpr int kFewWritten = kMaxParams + kMaxResults;
  bool is_inference_ = false;
  bool is_described_ = false;
  TorchRoute route_;
  int n_written_ = 0;
  const void* written_[kFewWritten];
};

// A tensor that has no plain view: a dtype of torch's own, too many dimensions.
[[noreturn]] void RefuseTorchTensor(PyObject* object, const ArgumentName& name);

[[gnu::always_inline]] inline void TorchCall::Convert(const ArgumentName& name, Access access,
                                                      PyObject* object, View& view) {
  PyTypeObject* type = Py_TYPE(object);
  if (type != g_torch.tensor && type != g_torch.parameter) [[unlikely]] {
    if (!IsTorchTensor(object)) RefuseObject(host(), object, name);
    return Leave(TorchRoute::kSubclass);
  }
  if (route_ != TorchRoute::kFast) return;
  char* const impl = static_cast<char*>(TorchImpl(object));
  const std::uint64_t keys = g_torch_layout.Keys(impl);
  if (!g_torch_fast.IsPlain(keys)) return ConvertOther(name, object, view);
  if (g_torch_layout.HasAutograd(impl)) {
    if (NeedsGrad(impl)) return Leave(TorchRoute::kGrad);
    if (ForwardADIsOn()) return Leave(TorchRoute::kForwardAD);
  }
  DLTensor& t = view.tensor;
  std::int64_t size;
  if (!g_torch_layout.View(impl, t, size)) [[unlikely]]
    RefuseTorchTensor(object, name);
  if (access == Access::kWrite) MarkWritten(object, name, keys, t);
  if (!t.data && size) [[unlikely]]
    Leave(TorchRoute::kNoMemory);  // storage that was resized to nothing has no key of its own
}

}  // namespace anyop::python
