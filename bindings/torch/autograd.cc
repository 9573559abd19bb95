// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>

#include <algorithm>

#include "gradient_node.h"
#include "kernels.h"
#include "texts.h"

namespace anyop::torch_host {
namespace {

// "x", "caches[1]"
std::string ArgumentName(const TorchOperator& op, int param, int element) {
  const std::string name(op.param(param).name);
  return element < 0 ? name : name + "[" + std::to_string(element) + "]";
}

[[noreturn, gnu::cold]] void RefuseTangent(const TorchOperator& op, const std::string& name) {
  RaiseTorchError(ANYOP_UNSUPPORTED,
                  Filled(torch_texts::kTangent, {{"op", op.name}, {"name", name}}));
}

[[noreturn, gnu::cold]] void RefuseGradient(const TorchOperator& op, const std::string& name) {
  RaiseTorchError(ANYOP_UNSUPPORTED,
                  Filled(torch_texts::kWrittenGradient, {{"op", op.name}, {"name", name}}));
}

[[noreturn, gnu::cold]] void RefuseParameter(const TorchOperator& op, int param) {
  const std::string name(op.param(param).name);
  RaiseTorchError(
      ANYOP_UNSUPPORTED,
      Filled(texts::kNoGradientFor, {{"op", op.name},
                                     {"name", name},
                                     {"asks", std::string(torch_texts::kAsks.text)},
                                     {"stop", Filled(torch_texts::kStop, {{"name", name}})}}));
}

[[noreturn, gnu::cold]] void RefuseWord(const TorchOperator& op, GradientWiring::FewerWords fewer,
                                        const std::string& word) {
  std::string known;
  for (const std::string& w : *fewer.words) {
    known += std::string(known.empty() ? "" : " or ") + "'" + w + "'";
  }
  RaiseTorchError(ANYOP_UNSUPPORTED,
                  Filled(texts::kFewerWords, {{"op", op.name},
                                              {"name", std::string(op.param(fewer.param).name)},
                                              {"word", word},
                                              {"words", known},
                                              {"gradient", op.wiring->op->display_name()},
                                              {"around", std::string(torch_texts::kAround.text)}}));
}

// Whether a gradient must be recorded. What it would silently lack is refused.
bool NeedsGradient(const TorchOperator& op, const c10::IValue* arguments) {
  const bool enabled = c10::GradMode::is_enabled();
  bool needs = false;
  ForTensors(op, arguments, [&](const at::Tensor& t, int i, int element) {
    if (!t.unsafeGetTensorImpl()->autograd_meta()) return;  // neither gradient nor tangent
    if (enabled && t.requires_grad()) {
      if (op.wiring && !(op.wiring->differentiable_params >> i & 1)) RefuseParameter(op, i);
      needs = true;
    }
    if (t._fw_grad(0).defined()) RefuseTangent(op, ArgumentName(op, i, element));
  });
  if (!needs || !op.wiring) return needs;
  for (const GradientWiring::FewerWords& fewer : op.wiring->fewer_words) {
    if (arguments[fewer.param].isNone()) continue;  // the gradient takes what may be absent
    const std::string& word = arguments[fewer.param].toStringRef();
    if (std::ranges::find(*fewer.words, word) == fewer.words->end()) RefuseWord(op, fewer, word);
  }
  return needs;
}

void CheckNothingNeedsGradient(const TorchOperator& op, Variant variant,
                               const c10::IValue* arguments) {
  const bool enabled = c10::GradMode::is_enabled();
  ForTensors(op, arguments, [&](const at::Tensor& t, int i, int element) {
    if (enabled && t.requires_grad()) RefuseGradient(op, ArgumentName(op, i, element));
    if (t._fw_grad(0).defined()) RefuseTangent(op, ArgumentName(op, i, element));
  });
  for (int r = 0; enabled && variant == Variant::kOut && r < op.n_results; ++r) {
    const at::Tensor& out = arguments[op.out_argument(r)].toTensor();
    if (out.defined() && out.requires_grad()) RefuseGradient(op, op.out_name(r));
  }
}

// Outside inference mode nothing would tell that an inference tensor has changed.
void CheckMayBeWritten(const TorchOperator& op, const std::string& name, const at::Tensor& t) {
  if (!t.defined() || !t.is_inference() || c10::InferenceMode::is_enabled()) return;
  RaiseTorchError(ANYOP_INVALID_ARGUMENT,
                  Filled(torch_texts::kInference, {{"op", op.name}, {"name", name}}));
}

}  // namespace

namespace {

// What is written beside the results has no gradient; its version is counted (BumpVersionsKernel).
void CallBelow(const TorchOperator& op, const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
               torch::jit::Stack* stack) {
  if (op.facts.mut_params) {
    const at::AutoDispatchBelowAutograd below;
    return handle.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  handle.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
}

}  // namespace

void AutogradKernel::operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                                torch::jit::Stack* stack) const {
  const c10::IValue* arguments = Arguments(*stack, op->n_arguments(variant));
  if (variant != Variant::kFunctional || (op->facts.mut_params && !op->wiring)) {
    CheckNothingNeedsGradient(*op, variant, arguments);
    // Not below ADInplaceOrView: BumpVersionsKernel comes next.
    const at::AutoDispatchBelowAutograd below;
    return handle.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }
  if (!NeedsGradient(*op, arguments)) return CallBelow(*op, handle, keys, stack);
  const GradientNodePtr node = MakeGradientNode(*op);
  node->SetEdges(arguments);
  node->SaveArguments(arguments);
  CallBelow(*op, handle, keys, stack);
  node->SetHistory(node, Arguments(*stack, op->n_results));
}

void BumpVersionsKernel::operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                                    torch::jit::Stack* stack) const {
  const c10::IValue* arguments = Arguments(*stack, op->n_arguments(variant));
  c10::SmallVector<at::Tensor, 4> written;  // held: the call takes the arguments off the stack
  ForTensors(*op, arguments, [&](const at::Tensor& t, int i, int) {
    const bool is_first = i == 0 && variant == Variant::kInPlace;
    if (!is_first && !(op->facts.mut_params >> i & 1)) return;
    CheckMayBeWritten(*op, std::string(op->param(i).name), t);
    written.push_back(t);
  });
  for (int r = 0; variant == Variant::kOut && r < op->n_results; ++r) {
    written.push_back(arguments[op->out_argument(r)].toTensor());
    CheckMayBeWritten(*op, op->out_name(r), written.back());
  }
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    handle.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
  }
  for (const at::Tensor& t : written) {
    if (t.defined() && !t.is_inference()) torch::autograd::increment_version(t);
  }
}

}  // namespace anyop::torch_host
