// SPDX-License-Identifier: Apache-2.0
#include "gradient_node.h"

#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>

namespace anyop::torch_host {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// Makes compiled autograd tell nodes apart by a value that is no tensor.
void Collect(torch::autograd::CompiledNodeArgs& args, const c10::IValue& v) {
  args.collect(v.tagKind());
  if (v.isDouble()) {
    args.collect(v.toDouble());
  } else if (v.isBool()) {
    args.collect(v.toBool());
  } else if (v.isInt() || v.isSymInt()) {
    args.collect(v.isInt() ? v.toInt() : v.toSymInt().guard_int(__FILE__, __LINE__));
  } else if (v.isString()) {
    args.collect(v.toStringRef());
  } else if (v.isList()) {
    args.collect(std::int64_t(v.toListRef().size()));
    for (const c10::IValue& element : v.toListRef()) Collect(args, element);
  } else if (v.isTensor()) {
    args.collect(v.toTensor());
  }
}

}  // namespace

std::string GradientNode::name() const {
  return "anyop::" + (op_.wiring ? op_.wiring->op->contract->name : op_.name + " (no gradient)");
}

void GradientNode::SetEdges(const c10::IValue* arguments) {
  torch::autograd::edge_list edges;
  if (op_.wiring) {
    for (const int p : op_.wiring->targets) {
      const bool is_there = arguments[p].isTensor() && arguments[p].toTensor().defined();
      edge_of_target_.push_back(is_there ? int(edges.size()) : -1);
      if (is_there) {
        edges.push_back(torch::autograd::impl::gradient_edge(arguments[p].toTensor()));
      }
    }
  } else {
    ForTensors(op_, arguments, [&](const at::Tensor& t, int) {
      edges.push_back(torch::autograd::impl::gradient_edge(t));
    });
  }
  set_next_edges(std::move(edges));
}

void GradientNode::SaveArguments(const c10::IValue* arguments) {
  if (!op_.wiring) return;
  kept_.resize(op_.wiring->sources.size());
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const GradientSource& source = op_.wiring->sources[i];
    if (source.kind != GradientSource::kParam) continue;
    const c10::IValue& value = arguments[source.index];
    if (value.isTensor()) {
      kept_[i].tensor = int(tensors_.size());
      tensors_.emplace_back(value.toTensor(), false);
    } else {
      kept_[i].value = value;
    }
  }
}

void GradientNode::SetHistory(const c10::intrusive_ptr<GradientNode>& self,
                              const c10::IValue* results) {
  for (int r = 0; r < op_.n_results; ++r) {
    const at::Tensor& t = results[r].toTensor();
    const bool is_differentiable = (op_.differentiable_results >> r & 1) && t.defined() &&
                                   torch::autograd::isDifferentiableType(t.scalar_type());
    torch::autograd::set_history(is_differentiable ? t : at::Tensor(), self);
  }
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const GradientSource& source = op_.wiring->sources[i];
    if (source.kind != GradientSource::kResult) continue;
    kept_[i].tensor = int(tensors_.size());
    kept_[i].is_result = true;
    const at::Tensor& t = results[source.index].toTensor();
    tensors_.emplace_back(t, t.defined() && t.requires_grad());
  }
}

// What arrives for a result that nothing used is undefined.
c10::IValue GradientNode::ResultGradient(int param, int result, const at::Tensor& gradient) const {
  if (gradient.defined()) return gradient;
  const Param& p = op_.wiring->op->contract->forms[0].params[std::size_t(param)];
  if (p.is_optional) return {};
  return input_metadata(std::size_t(result)).zeros_like();
}

c10::List<bool> GradientNode::Mask() {
  c10::List<bool> mask;
  for (const int edge : edge_of_target_) {
    mask.push_back(edge >= 0 && task_should_compute_output(std::size_t(edge)));
  }
  return mask;
}

variable_list GradientNode::apply(variable_list&& gradients) {
  if (!op_.wiring) {
    RaiseTorchError(ANYOP_UNSUPPORTED,
                    op_.name +
                        ": it has no gradient, but one was asked for. Try torch.no_grad() "
                        "around the call, or detach() its arguments.");
  }
  variable_list made(num_outputs());
  if (std::none_of(gradients.begin(), gradients.end(),
                   [](const at::Tensor& g) { return g.defined(); })) {
    return made;
  }
  const auto self = c10::intrusive_ptr<Node>::unsafe_reclaim_from_nonowning(this);
  torch::jit::Stack stack;
  stack.reserve(kept_.size() + 1);
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const GradientSource& source = op_.wiring->sources[i];
    if (source.kind == GradientSource::kResultGradient) {
      const at::Tensor& gradient = gradients[std::size_t(source.index)];
      stack.push_back(ResultGradient(int(i), source.index, gradient));
    } else if (kept_[i].tensor >= 0) {
      stack.push_back(tensors_[std::size_t(kept_[i].tensor)].unpack(self));
    } else {
      stack.push_back(kept_[i].value);
    }
  }
  stack.push_back(Mask());
  op_.gradient->callBoxed(stack);
  for (std::size_t r = 0; r < edge_of_target_.size(); ++r) {
    const int edge = edge_of_target_[r];
    if (edge >= 0) made[std::size_t(edge)] = std::move(stack[r]).toTensor();
  }
  return made;
}

void GradientNode::release_variables() {
  for (SavedVariable& t : tensors_) t.reset_data();
}

void GradientNode::compiled_args(torch::autograd::CompiledNodeArgs& args) const {
  args.collect(op_.op->name);
  args.collect(std::int64_t(kept_.size()));
  for (const Kept& k : kept_) {
    args.collect(k.is_result);
    if (k.tensor >= 0) {
      args.collect(tensors_[std::size_t(k.tensor)], k.is_result);
    } else {
      Collect(args, k.value);
    }
  }
  for (const int edge : edge_of_target_) args.collect(std::int64_t(edge));
}

variable_list GradientNode::apply_with_saved(const variable_list& gradients,
                                             torch::autograd::SwapSavedVariables& saved) {
  for (SavedVariable& t : tensors_) saved.before(t);
  variable_list made = apply(variable_list(gradients));
  for (SavedVariable& t : tensors_) saved.after(t);
  return made;
}

}  // namespace anyop::torch_host
