// SPDX-License-Identifier: Apache-2.0
// PyTorch's tensors seen in place, without linking PyTorch: functions found by name in the
// libraries that `import torch` has loaded, and offsets measured on probe tensors (torch_api.cc).
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "anyop/dtype.h"
#include "anyop/signature.h"
#include "anyop/value.h"
#include "bindings/numpy/numpy_view.h"
#include "bindings/python.h"

namespace anyop::python {

// An owned at::TensorBase, as far as the calling convention goes: one pointer. Its own destructor
// makes the C++ ABI return it in memory, as it does torch's class.
struct TorchTensor {
  void* impl;
  TorchTensor(const TorchTensor&) = delete;
  ~TorchTensor() {}
};
struct TorchSizes {  // c10::IntArrayRef
  const std::int64_t* data;
  std::size_t size;
};
enum class TorchMemoryFormat : std::int8_t {};
enum class TorchScalarType : std::int8_t {};

struct TorchApi {
  // Known: torch is imported, so its tensors are told apart. Fast: the calibration below held.
  bool is_known = false, is_fast = false;
  PyTypeObject* base = nullptr;  // torch._C.TensorBase
  PyTypeObject* tensor = nullptr;
  PyTypeObject* parameter = nullptr;

  // The C shim of the installed torch; a handle is the address of the at::Tensor in the object.
  int (*data_ptr)(const void*, void**);  // of memory to write: un-shares copy-on-write storage
  int (*storage_bytes)(const void*, std::int64_t*);  // null where this torch lacks it
  // Its C++ functions.
  bool (*is_grad_enabled)();
  bool (*requires_grad)(const void* impl);
  std::int64_t (*function_modes)();
  bool (*is_profiling)();
  void (*bump_version)(const void* handle);
  TorchTensor (*empty)(TorchSizes, TorchScalarType, bool pinned, std::optional<TorchMemoryFormat>);
  PyObject* (*wrap)(TorchTensor&&);
  DLDevice (*device_of)(const void* handle);  // of our adapter; null without it

  // Offsets in a TensorImpl, and of the data in its StorageImpl.
  struct Offsets {
    std::size_t keys = 0, autograd = 0, storage = 0, storage_data = 0, start = 0, dtype = 0;
    std::size_t rank = 0;  // then the sizes and strides: kInline each, or one pointer to both
  };
  static constexpr int kInline = 5;  // torch keeps the sizes of so many dimensions in the tensor
  Offsets at;
  std::uint64_t other_keys = 0;     // keys that no plain CPU tensor has
  std::uint64_t training_keys = 0;  // those that an inference tensor lacks
  std::uint64_t inference[2] = {};  // thread's keys in inference mode
  void* c10 = nullptr;              // handle of libc10.so

  PyObject* forward_ad = nullptr;  // dict of torch.autograd.forward_ad; its level is -1 when off
  DLDataType dtypes[64] = {};      // by torch's number; lanes 0: none of anyop's
  std::int8_t numbers[kDTypes];    // torch's number by dtype; -1: none
  PyObject* dtype_objects[kDTypes] = {};
  PyTypeObject* symbolic[3] = {};  // SymInt, SymFloat, SymBool: numbers of a program being traced
};
extern TorchApi g_torch;

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

// A tensor's object is PyObject's fields, then the at::Tensor, a pointer to its TensorImpl.
inline void* TorchImpl(PyObject* tensor) {
  void* impl;
  std::memcpy(&impl, reinterpret_cast<char*>(tensor) + sizeof(PyObject), sizeof impl);
  return impl;
}
inline const void* TorchHandle(PyObject* tensor) {
  return reinterpret_cast<char*>(tensor) + sizeof(PyObject);
}
template <class T>
T TorchField(const void* object, std::size_t offset) {
  T field;
  std::memcpy(&field, static_cast<const char*>(object) + offset, sizeof field);
  return field;
}
inline bool IsTorchTensor(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == g_torch.tensor || type == g_torch.parameter ||
         PyType_IsSubtype(type, g_torch.base);
}

// A number of a program that is traced, not known yet. Python's conversions would make it a
// constant of the program, for all sizes.
inline bool IsTorchNumber(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return g_torch.is_known && (type == g_torch.symbolic[0] || type == g_torch.symbolic[1] ||
                              type == g_torch.symbolic[2]);
}

// A tensor of inference mode that is written outside of it.
[[noreturn]] void RefuseInference(const ArgumentName& name);

bool ForwardADIsOn();

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
    const bool is_inference = (keys & g_torch.training_keys) != g_torch.training_keys;
    if (is_inference && !is_inference_) RefuseInference(name);
    if (!is_inference) AddWritten(handle);  // an inference tensor has no version
    // Asked of torch, which un-shares copy-on-write memory: until then the address is shared.
    if (g_torch.data_ptr(handle, &t.data)) [[unlikely]]
      Leave(TorchRoute::kNoMemory);
  }
  // A call of a graph or with a list may write more tensors than there is room for: those get their
  // new version now, before they are written.
  void AddWritten(const void* handle) {
    if (n_written_ < kFewWritten) [[likely]] {
      written_[n_written_++] = handle;
    } else {
      g_torch.bump_version(handle);
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

// The memory of a TensorImpl that has some of its own, with its number of elements. False for a
// dtype or rank that anyop does not know. No number of a dtype reads beyond the table of 64.
[[gnu::always_inline]] inline bool ViewTorch(char* impl, DLTensor& t, std::int64_t& size) {
  const TorchApi::Offsets& at = g_torch.at;
  const DLDataType dtype = g_torch.dtypes[TorchField<std::uint8_t>(impl, at.dtype) % 64];
  const auto rank = TorchField<std::uint64_t>(impl, at.rank);
  if (!dtype.lanes || rank > kMaxRank) [[unlikely]]
    return false;
  auto* shape = reinterpret_cast<std::int64_t*>(impl + at.rank + 8);
  const std::int64_t* strides = shape + TorchApi::kInline;
  if (rank > TorchApi::kInline) [[unlikely]] {
    std::memcpy(&shape, impl + at.rank + 8, sizeof shape);
    strides = shape + rank;
  }
  size = 1;  // of a contiguous tensor, the product of sizes is the next stride
  bool is_contiguous = true;
  for (std::int64_t i = std::int64_t(rank) - 1; i >= 0; --i) {
    is_contiguous &= strides[i] == size || shape[i] == 1;
    size *= shape[i];
  }
  const auto storage = TorchField<const void*>(impl, at.storage);
  const auto start = TorchField<std::int64_t>(impl, at.start);
  char* data = TorchField<char*>(storage, at.storage_data) + start * Bytes(dtype);
  FillTensor(&t, data, kHostDevice, dtype, int(rank), shape,
             is_contiguous || !size ? nullptr : strides);
  return true;
}

[[gnu::always_inline]] inline void TorchCall::Convert(const ArgumentName& name, Access access,
                                                      PyObject* object, View& view) {
  PyTypeObject* type = Py_TYPE(object);
  if (type != g_torch.tensor && type != g_torch.parameter) [[unlikely]] {
    if (!IsTorchTensor(object)) RefuseObject(host(), object, name);
    return Leave(TorchRoute::kSubclass);
  }
  if (route_ != TorchRoute::kFast) return;
  char* const impl = static_cast<char*>(TorchImpl(object));
  const auto keys = TorchField<std::uint64_t>(impl, g_torch.at.keys);
  if (keys & g_torch.other_keys) return ConvertOther(name, object, view);
  if (TorchField<void*>(impl, g_torch.at.autograd)) {  // most tensors have nothing of autograd's
    if (g_torch.requires_grad(impl) && g_torch.is_grad_enabled()) return Leave(TorchRoute::kGrad);
    if (ForwardADIsOn()) return Leave(TorchRoute::kForwardAD);
  }
  DLTensor& t = view.tensor;
  std::int64_t size;
  if (!ViewTorch(impl, t, size)) [[unlikely]]
    RefuseTorchTensor(object, name);
  if (access == Access::kWrite) MarkWritten(object, name, keys, t);
  if (!t.data && size) [[unlikely]]
    Leave(TorchRoute::kNoMemory);  // storage that was resized to nothing has no key of its own
}

// What Python's torch objects stand for: torch.bfloat16; -1, without an exception, for others.
int TorchDType(PyObject* object);

}  // namespace anyop::python
