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
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "boxed.h"
#include "composed.h"
#include "copies.h"
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

// torch's own definition asks for _copy_from, which for a conjugated tensor asks for this.
at::Tensor& Copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  CopyFrom(from, to, non_blocking);
  return to;
}

// ---- Values.

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
  m.impl("copy_", &Copy);
  m.impl("_copy_from", &CopyFrom);
  m.impl("_copy_from_and_resize", &CopyFromAndResize);
  m.impl("_local_scalar_dense", &Item);
  m.impl("fill_.Scalar", &Fill);
  m.impl("zero_", &Zero);
  m.impl("as_strided", &AsStrided);
  m.impl("view", &View);
  m.impl("view_as_complex", &at::native::view_as_complex);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("_reshape_alias", &ReshapeAlias);
  m.impl("unfold", &at::native::unfold);
  m.impl("resize_", &ResizeTo);
  m.impl("set_.source_Tensor", &SetTensor);
  m.impl("set_.source_Storage", &SetStorage);
  m.impl("set_.source_Storage_storage_offset", &SetStorageAt);
  m.impl("record_stream", &RecordStream);
  // The first two choose by device what they call. The CPU has kernels for the others, which round
  // otherwise than their definitions by other operators.
  for (const char* const name :
       {"convolution", "convolution_backward", "native_layer_norm", "native_group_norm"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&Boxed>());
  }
  RegisterComposed(m);
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
