// SPDX-License-Identifier: Apache-2.0
#include "register.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "devices/virtual/torch/boxed.h"
#include "devices/virtual/torch/composed.h"
#include "devices/virtual/torch/copies.h"

namespace virtual_torch {
namespace {

using c10::DispatchKey;

// What torch_npu does itself: tensors, their memory, and views of it.
constexpr auto kTorchNpus = std::to_array<std::string_view>({
    "_copy_from",
    "_copy_from_and_resize",
    "_has_compatible_shallow_copy_type",
    "_local_scalar_dense",
    "_pin_memory",
    "_reshape_alias",
    "_to_copy",
    "as_strided",
    "empty.memory_format",
    "empty_like",
    "empty_strided",
    "is_pinned",
    "is_set_to",
    "lift",
    "lift_fresh",
    "new_empty_strided",
    "record_stream",
    "resize_",
    "resize_as_",
    "set_",
    "set_.source_Storage",
    "set_.source_Storage_storage_offset",
    "set_.source_Tensor",
    "unfold",
    "view",
    "view.dtype",
});
// Ours, of functions of their own.
constexpr auto kOwn = std::to_array<std::string_view>({"copy_", "native_dropout"});
// Some results of its definition are the host's.
constexpr std::string_view kHostsToo = "_pack_padded_sequence";
// Composites that choose by device what they call.
constexpr auto kWhole = std::to_array<std::string_view>({"convolution", "convolution_backward"});

bool IsOneOf(const auto& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// torch's own definition of an operator by others, or its derivative, in whose place torch_npu has
// put a kernel of its own.
class Composite final : public c10::OperatorKernel {
 public:
  // key: one that no library has kernels for, so that what is found there is the definition. To ask
  // for it writes to a list of the kernel's that torch does not lock: no call may.
  Composite(const c10::OperatorHandle& op, DispatchKey key)
      : definition_(op.getComputedKernelForDispatchKey(key)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    definition_.callBoxed(op, keys, stack);
  }

 private:
  const c10::SafeKernelFunction definition_;
};

at::Tensor& Copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  CopyFrom(from, to, non_blocking);
  return to;
}

// There is one layout here: a change of the layout leaves the tensor as it is.
void KeepFormat(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const bool is_in_place = op.schema().arguments()[0].alias_info() != nullptr;
  const at::Tensor input = torch::jit::peek(*stack, 0, op.schema().arguments().size()).toTensor();
  torch::jit::drop(*stack, op.schema().arguments().size());
  stack->emplace_back(is_in_place ? input : input.alias());
}

bool ReturnsView(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.returns(), [](const c10::Argument& result) {
    return result.alias_info() && !result.alias_info()->isWrite();
  });
}

class Registration {
 public:
  void Register(const c10::OperatorHandle& op, const std::string& name) {
    const auto has = [&](DispatchKey key) { return op.hasKernelForDispatchKey(key); };
    // In-place views change what a tensor knows of itself, and no memory.
    if (ReturnsView(op.schema()) || op.hasTag(at::Tag::inplace_view)) return;
    const bool is_defined = has(DispatchKey::CompositeImplicitAutograd);
    const bool is_theirs = has(DispatchKey::PrivateUse1);
    const bool is_composite = has(DispatchKey::CompositeExplicitAutograd) ||
                              has(DispatchKey::CompositeExplicitAutogradNonFunctional);
    // torch_npu derives some by operators of aclnn that nothing else calls.
    const bool is_theirs_to_derive = has(DispatchKey::AutogradPrivateUse1);
    if (!is_defined && is_theirs_to_derive && has(DispatchKey::Autograd)) Derive(op, name);
    if (IsOneOf(kOwn, name)) return;
    if (name == kHostsToo) {
      aten_.impl(name.c_str(), OfTorch(op, DispatchKey::IPU));
      return;
    }
    // A definition is derived by what it calls; a kernel that stood beside it would hide that.
    if (is_defined && !IsOneOf(kWhole, name)) {
      if (!is_theirs && !is_theirs_to_derive) return;
      Derive(op, name);
      aten_.impl(name.c_str(), OfTorch(op));
    } else if (has(DispatchKey::CPU) || IsOneOf(kWhole, name)) {
      aten_.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&Boxed>());
    } else if (is_theirs && is_composite) {
      aten_.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&Boxed>());
    }
  }
  void RegisterOwn() {
    RegisterComposed(aten_);
    aten_.impl("copy_", &Copy);
    aten_.impl("_copy_from", &CopyFrom);
    aten_.impl("_copy_from_and_resize", &CopyFromAndResize);
  }

 private:
  void Derive(const c10::OperatorHandle& op, const std::string& name) {
    autograd_.impl(name.c_str(), OfTorch(op));
  }
  static torch::CppFunction OfTorch(const c10::OperatorHandle& op,
                                    DispatchKey key = DispatchKey::AutogradIPU) {
    return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Composite>(op, key));
  }

  static torch::Library& Open(DispatchKey key) {  // for the process's life
    return *new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  }
  torch::Library& aten_ = Open(DispatchKey::PrivateUse1);
  torch::Library& autograd_ = Open(DispatchKey::AutogradPrivateUse1);
};

// torch warns that kernels are replaced, which is what is wanted.
struct Quiet final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace

void RegisterFormats() {
  Quiet quiet;
  const c10::WarningUtils::WarningHandlerGuard is_quiet(&quiet);
  auto& npu = *new torch::Library(torch::Library::IMPL, "npu", DispatchKey::PrivateUse1, __FILE__,
                                  __LINE__);  // for the process's life
  for (const c10::OperatorName& full : c10::Dispatcher::singleton().getAllOpNames()) {
    if (full.name != "npu::_npu_format_cast" && full.name != "npu::npu_format_cast" &&
        full.name != "npu::npu_format_cast_") {
      continue;
    }
    std::string name = full.name.substr(std::string_view("npu::").size());
    if (!full.overload_name.empty()) name += "." + full.overload_name;
    npu.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&KeepFormat>());
  }
}

void RegisterKernels() {
  Quiet quiet;
  const c10::WarningUtils::WarningHandlerGuard is_quiet(&quiet);
  Registration registration;
  for (const c10::OperatorName& full : c10::Dispatcher::singleton().getAllOpNames()) {
    constexpr std::string_view kSpace = "aten::";
    if (!full.name.starts_with(kSpace)) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(full);
    std::string name = full.name.substr(kSpace.size());
    if (!full.overload_name.empty()) name += "." + full.overload_name;
    if (op && !IsOneOf(kTorchNpus, name)) registration.Register(*op, name);
  }
  registration.RegisterOwn();
}

}  // namespace virtual_torch
