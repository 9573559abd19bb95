// SPDX-License-Identifier: Apache-2.0
#include <ATen/autocast_mode.h>

#include "device.h"
#include "kernels.h"

namespace anyop::torch_host {
namespace {

bool IsCastable(const c10::IValue& v) {
  if (!v.isTensor() || !v.toTensor().defined()) return false;
  const auto type = v.toTensor().scalar_type();
  return type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
}

void MakeAgree(const std::vector<int>& group, c10::IValue* arguments, at::ScalarType to,
               c10::DeviceType type) {
  std::optional<at::ScalarType> first;
  bool differ = false;
  for (const int i : group) {
    if (!IsCastable(arguments[i])) continue;
    const auto dtype = arguments[i].toTensor().scalar_type();
    differ |= first && *first != dtype;
    first = dtype;
  }
  for (const int i : group) {
    if (differ && IsCastable(arguments[i])) {
      arguments[i] = at::autocast::cached_cast(to, arguments[i].toTensor(), type);
    }
  }
}

}  // namespace

void AutocastKernel::operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet,
                                torch::jit::Stack* stack) const {
  // Without this key, or the call below would come back here.
  const c10::impl::ExcludeDispatchKeyGuard without(
      type == c10::DeviceType::CPU ? c10::DispatchKey::AutocastCPU : AutocastKey(type));
  const at::ScalarType to = at::autocast::get_autocast_dtype(type);
  c10::IValue* arguments = Arguments(*stack, op->n_arguments(variant));
  for (const std::vector<int>& group : op->facts.dtype_groups)
    MakeAgree(group, arguments, to, type);
  handle.callBoxed(stack);
}

}  // namespace anyop::torch_host
