// SPDX-License-Identifier: Apache-2.0
// The kernels of every torch operator, on CPU tensors and on those of devices.
#include <utility>

#include <ATen/ops/empty.h>

#include "allocate.h"
#include "device.h"
#include "frame.h"
#include "kernels.h"
#include "runtime/plan/calling_host.h"
#include "texts.h"

namespace anyop::torch_host {
namespace {

const HostName kTorch = InternHostName("torch");

// A result that output_mask leaves out, or the gradient of an absent argument.
bool IsDeclined(const TorchOperator& op, const c10::IValue* arguments, const anyop_value* frame,
                int r) {
  if (!(op.declinable_results >> r & 1)) [[likely]]
    return false;
  const c10::IValue& mask = arguments[op.n_params];
  if (op.facts.takes_mask && mask.isList() && !mask.toListRef()[std::size_t(r)].toBool())
    return true;
  const int p = op.facts.declined_without[std::size_t(r)];
  return p >= 0 && frame[p].tag == ANYOP_NONE;
}

void CheckMask(const TorchOperator& op, const c10::IValue* arguments) {
  if (!op.facts.takes_mask || !arguments[op.n_params].isList()) return;
  const std::size_t n = arguments[op.n_params].toListRef().size();
  if (n == std::size_t(op.n_results)) return;
  RaiseTorchError(ANYOP_INVALID_ARGUMENT,
                  Filled(texts::kMaskLength, {{"op", op.name},
                                              {"given", std::to_string(n)},
                                              {"results", std::to_string(op.n_results)}}));
}

// Raises what a kernel in Python has raised. The adapter knows no Python, but torch hands on what
// an operator in Python raises as it is.
void RaiseAgain() {
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("anyop::_raise_again", "");
  torch::jit::Stack nothing;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &nothing);
}

// make(sizes, dtype): the tensor of a fresh result.
template <class Make>
[[gnu::always_inline]] inline void RunKernelOf(const TorchOperator& t, Variant variant,
                                               torch::jit::Stack* stack, Make&& make) try {
  const int n = t.n_arguments(variant);
  const c10::IValue* arguments = Arguments(*stack, n);
  Frame frame(t);
  frame.FillParams(arguments, variant == Variant::kInPlace);
  c10::SmallVector<at::Tensor, kMaxResults> results;
  bool is_wanted[kMaxResults];
  if (t.facts.takes_mask && variant != Variant::kInPlace) CheckMask(t, arguments);
  for (int r = 0; r < t.n_results; ++r) {
    frame.SetNone(t.n_params + r);
    is_wanted[r] = !IsDeclined(t, arguments, frame.values(), r);
    if (variant == Variant::kInPlace) {
      frame.SetResultToParam(r, 0);
    } else if (variant == Variant::kOut && is_wanted[r]) {
      frame.SetResult(r, arguments[t.out_argument(r)].toTensor());
    }
  }
  const HeldPlan plan = GetPlan(*t.op, frame.values());
  for (int r = 0; variant == Variant::kFunctional && r < t.n_results; ++r) {
    if (!is_wanted[r]) {
      results.emplace_back();
      continue;
    }
    const ResultShape& shape = plan->results[r];
    const at::IntArrayRef sizes(shape.shape, std::size_t(shape.rank));
    results.emplace_back(make(sizes, ToTorch(shape.dtype)));
    frame.SetFresh(r, results.back(), shape, plan->device);
  }
  const CallingHost host(kTorch);  // a kernel in Python gets torch tensors
  kernel_has_raised = false;       // what an earlier call raised may have been dropped on its way
  Run(*t.op, *plan, frame.values());
  if (variant == Variant::kFunctional) {
    torch::jit::drop(*stack, std::size_t(n));
    for (at::Tensor& result : results) stack->emplace_back(std::move(result));
    return;
  }
  c10::IValue returned;
  const bool returns = t.facts.has_lone_result;
  if (returns) returned = arguments[variant == Variant::kInPlace ? 0 : t.out_argument(0)];
  torch::jit::drop(*stack, std::size_t(n));
  if (returns) stack->emplace_back(std::move(returned));
} catch (const Error& e) {
  if (std::exchange(kernel_has_raised, false)) RaiseAgain();
  RaiseTorchError(e.code, e.what());
}

}  // namespace

void CpuKernel::operator()(const c10::OperatorHandle&, c10::DispatchKeySet,
                           torch::jit::Stack* stack) const {
  RunKernelOf(*op, variant, stack,
              [](at::IntArrayRef sizes, at::ScalarType dtype) { return EmptyCpu(sizes, dtype); });
}

void DeviceKernel::operator()(const c10::OperatorHandle&, c10::DispatchKeySet,
                              torch::jit::Stack* stack) const {
  const c10::IValue* arguments = Arguments(*stack, op->n_arguments(variant));
  // A tensor on the CPU does not decide: its values may be all that the plan needs of it.
  std::optional<c10::Device> device;
  const auto look = [&](const at::Tensor& t) {
    if (!device && t.defined() && !t.device().is_cpu()) device = t.device();
  };
  ForTensors(*op, arguments, [&](const at::Tensor& t, int, int) { look(t); });
  for (int r = 0; variant == Variant::kOut && r < op->n_results; ++r) {
    look(arguments[op->out_argument(r)].toTensor());
  }
  if (!device) RaiseTorchError(ANYOP_INTERNAL, op->name + ": no tensor is on a device.");
  const TorchDevice current(*device);
  RunKernelOf(*op, variant, stack, [&](at::IntArrayRef sizes, at::ScalarType dtype) {
    return at::empty(sizes, at::TensorOptions().dtype(dtype).device(*device));
  });
}

void WrongLayoutKernel::operator()(const c10::OperatorHandle&, c10::DispatchKeySet,
                                   torch::jit::Stack* stack) const {
  const c10::IValue* arguments = Arguments(*stack, op->n_arguments(variant));
  std::string text = Filled(torch_texts::kSomeLayout, {{"op", op->name}});
  const auto look = [&](const at::Tensor& t, const std::string& name) {
    if (t.layout() == at::kStrided && !t.is_quantized() && !t.is_nested()) return;
    const Text& layout = t.is_quantized() ? torch_texts::kQuantized
                         : t.is_nested()  ? torch_texts::kNested
                         : t.is_mkldnn()  ? torch_texts::kMkldnn
                                          : torch_texts::kSparse;
    text = Filled(torch_texts::kLayout, {{"op", op->name},
                                         {"name", name},
                                         {"layout", std::string(layout.name)},
                                         {"conversion", std::string(layout.text)}});
  };
  ForTensors(*op, arguments, [&](const at::Tensor& t, int i, int element) {
    const std::string index = element < 0 ? "" : "[" + std::to_string(element) + "]";
    look(t, std::string(op->param(i).name) + index);
  });
  for (int r = 0; variant == Variant::kOut && r < op->n_results; ++r) {
    look(arguments[op->out_argument(r)].toTensor(), op->out_name(r));
  }
  RaiseTorchError(ANYOP_INVALID_ARGUMENT, text);
}

}  // namespace anyop::torch_host
