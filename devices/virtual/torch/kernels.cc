// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "boxed.h"
#include "generator.h"
#include "memory.h"
#include "table.h"

namespace virtual_torch {
namespace {

using c10::SymIntArrayRef;

// ---- New tensors and views.

void CheckOptions(std::optional<at::Layout> layout, std::optional<bool> pin) {
  if (layout.value_or(at::kStrided) == at::kStrided && !pin.value_or(false)) return;
  Raise(ANYOP_UNSUPPORTED, Word() + ": a tensor must be dense and not pinned.");
}

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor Empty(SymIntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> layout, std::optional<at::Device> device,
                 std::optional<bool> pin, std::optional<at::MemoryFormat> format) {
  CheckOptions(layout, pin);
  const c10::DeviceGuard guard(DeviceAt(device ? device->index() : c10::DeviceIndex(-1)));
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(sizes), &DeviceMemory(), kKeys,
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor EmptyStrided(SymIntArrayRef sizes, SymIntArrayRef strides,
                        std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                        std::optional<at::Device> device, std::optional<bool> pin) {
  CheckOptions(layout, pin);
  const c10::DeviceGuard guard(DeviceAt(device ? device->index() : c10::DeviceIndex(-1)));
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(sizes),
                                           C10_AS_INTARRAYREF_SLOW(strides), &DeviceMemory(), kKeys,
                                           c10::dtype_or_default(dtype));
}

at::Tensor AsStrided(const at::Tensor& self, SymIntArrayRef sizes, SymIntArrayRef strides,
                     std::optional<c10::SymInt> offset) {
  std::optional<std::int64_t> begin;
  if (offset) begin = offset->expect_int();
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(sizes),
                                           C10_AS_INTARRAYREF_SLOW(strides), begin);
}
at::Tensor View(const at::Tensor& self, SymIntArrayRef sizes) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(sizes));
}
at::Tensor ReshapeAlias(const at::Tensor& self, SymIntArrayRef sizes, SymIntArrayRef strides) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(sizes),
                                    C10_AS_INTARRAYREF_SLOW(strides));
}
const at::Tensor& ResizeTo(const at::Tensor& self, SymIntArrayRef sizes,
                           std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(self.device());
  Resize(self, C10_AS_INTARRAYREF_SLOW(sizes), format);
  return self;
}
at::Tensor& SetTensor(at::Tensor& self, const at::Tensor& from) {
  return at::cpu::set_(self, from);
}
at::Tensor& SetStorage(at::Tensor& self, at::Storage from) { return at::cpu::set_(self, from); }
at::Tensor& SetStorageAt(at::Tensor& self, at::Storage from, c10::SymInt offset,
                         SymIntArrayRef sizes, SymIntArrayRef strides) {
  return at::cpu::set_(self, from, offset.expect_int(), C10_AS_INTARRAYREF_SLOW(sizes),
                       C10_AS_INTARRAYREF_SLOW(strides));
}
void RecordStream(at::Tensor& self, c10::Stream stream) {
  DeviceMemory().recordStream(self.storage().data_ptr(), stream);
}

// ---- Copies.

at::Tensor DenseLike(const at::Tensor& t, c10::Device device) {
  return at::empty(t.sizes(), at::dtype(t.scalar_type()).device(device));
}

// Both are dense, of one dtype and shape.
void CopyBytes(const at::Tensor& from, const at::Tensor& to, anyop_stream stream) {
  const auto place = [](const at::Tensor& t) {
    return t.is_cpu() ? std::int32_t{ANYOP_AT_HOST} : std::int32_t{t.device().index()};
  };
  Must(Table()->copy(stream, place(to), to.data_ptr(), place(from), from.data_ptr(), to.nbytes()));
}

void Keep(const at::Tensor& host, const c10::Stream& stream) {
  KeepUntilOver(std::make_shared<at::Tensor>(host), Native(stream), stream.device_index());
}

void CopyWithin(const at::Tensor& from, const at::Tensor& to) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  torch::jit::Stack stack{to, from, false};
  Boxed(op, &stack);
}

void CopyToDevice(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const c10::Stream stream = CurrentStream(to.device().index());
  at::Tensor source = from.to(to.scalar_type()).contiguous();
  // Memory that is not pinned may be written to as soon as the copy has returned.
  if (non_blocking && !IsPinned(source.data_ptr()) && source.is_same(from)) source = source.clone();
  const at::Tensor target = to.is_contiguous() ? to : DenseLike(to, to.device());
  CopyBytes(source, target, Native(stream));
  Keep(source, stream);
  if (!target.is_same(to)) CopyWithin(target, to);
  if (!non_blocking) Synchronize(stream);
}

void CopyToHost(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const c10::Stream stream = CurrentStream(from.device().index());
  const at::Tensor source = from.contiguous();
  const bool is_direct = to.is_contiguous() && to.scalar_type() == from.scalar_type();
  const at::Tensor target = is_direct ? to : DenseLike(source, at::kCPU);
  CopyBytes(source, target, Native(stream));
  Keep(target, stream);
  if (!(non_blocking && is_direct && IsPinned(to.data_ptr()))) Synchronize(stream);
  if (!is_direct) to.copy_(target);
}

// In the order of both current streams.
void CopyAcross(const at::Tensor& from, const at::Tensor& to) {
  const at::Tensor source = from.to(to.scalar_type()).contiguous();
  const anyop_stream here = CurrentNative(from.device().index());
  const anyop_stream there = CurrentNative(to.device().index());
  const c10::DeviceGuard guard(to.device());
  const at::Tensor target = to.is_contiguous() ? to : DenseLike(to, to.device());
  Order(there, here, to.device().index());
  CopyBytes(source, target, here);
  Order(here, there, from.device().index());
  if (!target.is_same(to)) CopyWithin(target, to);
}

at::Tensor CopyFrom(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (to.numel() == 0) return to;
  const at::Tensor source = from.sizes() == to.sizes() ? from : from.expand_as(to);
  const c10::DeviceGuard guard(from.is_cpu() ? to.device() : from.device());
  if (from.device() == to.device()) {
    CopyWithin(source, to);
  } else if (from.is_cpu()) {
    CopyToDevice(source, to, non_blocking);
  } else if (to.is_cpu()) {
    CopyToHost(source, to, non_blocking);
  } else {
    CopyAcross(source, to);
  }
  return to;
}

at::Tensor CopyFromAndResize(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) to.resize_(from.sizes());
  return CopyFrom(from, to, false);
}

at::Scalar Item(const at::Tensor& self) { return self.cpu().item(); }

at::Tensor& Fill(at::Tensor& self, const at::Scalar& value) {
  if (self.numel() == 0) return self;
  if (!self.is_non_overlapping_and_dense()) {
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::fill_", "Scalar");
    torch::jit::Stack stack{self, value};
    Boxed(op, &stack);
    return self;
  }
  const at::Tensor item = at::scalar_tensor(value, at::dtype(self.scalar_type()));
  Must(Table()->fill(CurrentNative(self.device().index()), self.data_ptr(),
                     std::uint64_t(self.numel()), item.data_ptr(), self.element_size()));
  return self;
}
at::Tensor& Zero(at::Tensor& self) { return Fill(self, 0); }

// ---- Registration: by functions, as an error in a static initializer ends the process.

torch::Library& Open(torch::Library::Kind kind, const char* space,
                     std::optional<c10::DispatchKey> key) {
  return *new torch::Library(kind, space, key, __FILE__, __LINE__);  // for the process's life
}
torch::Library& OpenFor(const char* space, c10::DispatchKey key) {
  return Open(torch::Library::IMPL, space, key);
}

void RegisterAten() {
  torch::Library& m = OpenFor("aten", c10::DispatchKey::PrivateUse1);
  m.impl("empty.memory_format", &Empty);
  m.impl("empty_strided", &EmptyStrided);
  m.impl("_copy_from", &CopyFrom);
  m.impl("_copy_from_and_resize", &CopyFromAndResize);
  m.impl("_local_scalar_dense", &Item);
  m.impl("fill_.Scalar", &Fill);
  m.impl("zero_", &Zero);
  m.impl("as_strided", &AsStrided);
  m.impl("view", &View);
  m.impl("_reshape_alias", &ReshapeAlias);
  m.impl("unfold", &at::native::unfold);
  m.impl("resize_", &ResizeTo);
  m.impl("set_.source_Tensor", &SetTensor);
  m.impl("set_.source_Storage", &SetStorage);
  m.impl("set_.source_Storage_storage_offset", &SetStorageAt);
  m.impl("record_stream", &RecordStream);
}

// Without the fallthrough every operator fails inside of torch.autocast on the device.
void RegisterAutocast() {
  OpenFor("_", c10::DispatchKey::AutocastPrivateUse1)
      .fallback(torch::CppFunction::makeFallthrough());
  torch::Library& m = OpenFor("aten", c10::DispatchKey::AutocastPrivateUse1);
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(mm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(addmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(cross_entropy_loss, fp32)
}

// What Python cannot ask torch for.
void RegisterQuestions() {
  torch::Library& m = Open(torch::Library::DEF, "anyop_device", std::nullopt);
  m.def("default_generator(int device) -> Generator?", [](std::int64_t device) {
    return std::optional<at::Generator>(DefaultGenerator(c10::DeviceIndex(device)));
  });
  m.def("device_count() -> int", [] { return std::int64_t{Table()->count()}; });
  m.def("native_stream(Tensor like) -> int", [](const at::Tensor& like) {
    return reinterpret_cast<std::int64_t>(CurrentNative(like.device().index()));
  });
  m.def("boxed_counts() -> (int, int)", [] {
    return std::tuple<std::int64_t, std::int64_t>(BoxedCounts().in_order, BoxedCounts().at_once);
  });
}

}  // namespace

void RegisterKernels() {
  OpenFor("_", c10::DispatchKey::PrivateUse1)
      .fallback(torch::CppFunction::makeFromBoxedFunction<&Boxed>());
  RegisterAutocast();
  RegisterAten();
  RegisterQuestions();
}

}  // namespace virtual_torch
