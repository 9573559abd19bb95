// SPDX-License-Identifier: Apache-2.0
// The boxed functors that implement a torch operator, one class per dispatch key.
#pragma once
#include <ATen/core/boxing/KernelFunction.h>

#include "operator.h"

namespace anyop::torch_host {

struct Kernel : c10::OperatorKernel {
  Kernel(const TorchOperator* the_op, Variant the_variant) : op(the_op), variant(the_variant) {}
  const TorchOperator* const op;
  const Variant variant;
};

// Runs the operator.
struct CpuKernel final : Kernel {
  using Kernel::Kernel;
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*) const;
};
// Runs the operator on tensors of a device that a loaded library has: on torch's current stream,
// with memory of torch's.
struct DeviceKernel final : Kernel {
  using Kernel::Kernel;
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*) const;
};
// Names the tensor whose layout no kernel reads.
struct WrongLayoutKernel final : Kernel {
  using Kernel::Kernel;
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*) const;
};
// Tells autograd of tensors that were written (ADInplaceOrView).
struct BumpVersionsKernel final : Kernel {
  using Kernel::Kernel;
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*) const;
};
// Records the gradient where one is needed; refuses it for what writes into its arguments.
struct AutogradKernel final : Kernel {
  using Kernel::Kernel;
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*) const;
};
// Casts float tensors that must share a dtype and do not.
struct AutocastKernel final : Kernel {
  AutocastKernel(const TorchOperator* the_op, Variant the_variant,
                 c10::DeviceType the_type = c10::DeviceType::CPU)
      : Kernel(the_op, the_variant), type(the_type) {}
  const c10::DeviceType type;
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*) const;
};

}  // namespace anyop::torch_host
