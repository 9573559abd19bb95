// SPDX-License-Identifier: Apache-2.0
#include "gradient_node.h"

#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <ATen/ops/zeros.h>

#include <utility>

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
    ForTensors(op_, arguments, [&](const at::Tensor& t, int, int) {
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

template <class Ptr>
Ptr MakeNode(const TorchOperator& op) {
  if constexpr (std::is_same_v<Ptr, std::shared_ptr<GradientNode>>) {
    // torch::autograd::deleteNode frees a long chain of nodes without recursion.
    return Ptr(new GradientNode(op), [](auto* node) { deleteNode(node); });
  } else {
    return c10::make_intrusive<GradientNode>(op);
  }
}

GradientNodePtr MakeGradientNode(const TorchOperator& op) { return MakeNode<GradientNodePtr>(op); }

void GradientNode::SetHistory(const GradientNodePtr& self, const c10::IValue* results) {
  for (int r = 0; r < op_.n_results; ++r) {
    const at::Tensor& t = results[r].toTensor();
    const bool is_differentiable = op_.IsDifferentiable(r) && t.defined() &&
                                   torch::autograd::isDifferentiableType(t.scalar_type());
    // An undefined tensor keeps the place of its result: apply() gets a gradient by its number.
    torch::autograd::set_history(is_differentiable ? t : at::Tensor(), self);
  }
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const GradientSource& source = op_.wiring->sources[i];
    if (source.kind != GradientSource::kResult) continue;
    kept_[i].tensor = int(tensors_.size());
    kept_[i].is_result = true;
    const at::Tensor& t = results[source.index].toTensor();
    // A result of this node is saved as such, or it would hold the node that holds it.
    tensors_.emplace_back(t, t.defined() && t.requires_grad());
  }
}

variable_list CallGradient(const GradientShape& shape, const variable_list& gradients,
                           std::vector<c10::IValue> arguments, const std::vector<bool>& mask,
                           const std::function<at::Tensor(int)>& zeros) {
  const GradientWiring& wiring = *shape.op->wiring;
  torch::jit::Stack stack(std::move(arguments));
  for (std::size_t i = 0; i < wiring.sources.size(); ++i) {
    const GradientSource& source = wiring.sources[i];
    if (source.kind != GradientSource::kResultGradient) continue;
    const at::Tensor& gradient = gradients[std::size_t(source.index)];
    const Param& p = wiring.op->contract->forms[0].params[i];
    if (gradient.defined()) {
      stack[i] = gradient;
    } else if (!p.is_optional) {
      stack[i] = zeros(source.index);
    }
  }
  if (shape.op->gradient_takes_mask) {
    c10::List<bool> output_mask;
    for (const bool is_wanted : mask) output_mask.push_back(is_wanted);
    stack.emplace_back(std::move(output_mask));
  }
  shape.op->gradient->callBoxed(stack);
  variable_list made(std::size_t(shape.n_edges));
  for (std::size_t r = 0; r < shape.edge_of_target.size(); ++r) {
    const int edge = shape.edge_of_target[r];
    if (edge >= 0) made[std::size_t(edge)] = std::move(stack[r]).toTensor();
  }
  return made;
}

// The node as torch holds it; Ptr: NodePtr, a parameter so that only one branch is compiled.
template <class Ptr, class N>
Ptr Myself(N& node) {
  if constexpr (kIsSharedPtr<Ptr>) {
    return node.getptr();
  } else {
    return Ptr::unsafe_reclaim_from_nonowning(&node);
  }
}

std::vector<c10::IValue> GradientNode::Arguments() {
  if (!op_.wiring) {
    RaiseTorchError(ANYOP_UNSUPPORTED,
                    Filled(texts::kNoGradient,
                           {{"op", op_.name}, {"around", std::string(torch_texts::kAround.text)}}));
  }
  const NodePtr self = Myself<NodePtr>(*this);
  std::vector<c10::IValue> arguments(kept_.size());
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    if (kept_[i].tensor >= 0) {
      arguments[i] = tensors_[std::size_t(kept_[i].tensor)].unpack(self);
    } else {
      arguments[i] = kept_[i].value;
    }
  }
  return arguments;
}

std::vector<bool> GradientNode::Mask() {
  std::vector<bool> mask;
  for (const int edge : edge_of_target_) {
    mask.push_back(edge >= 0 && task_should_compute_output(std::size_t(edge)));
  }
  return mask;
}

variable_list GradientNode::apply(variable_list&& gradients) {
  std::vector<c10::IValue> arguments = Arguments();
  const auto zeros = [&](int r) { return input_metadata(std::size_t(r)).zeros_like(); };
  return CallGradient(shape(), gradients, std::move(arguments), Mask(), zeros);
}

void GradientNode::release_variables() {
  for (SavedVariable& t : tensors_) t.reset_data();
}

void GradientNode::compiled_args(torch::autograd::CompiledNodeArgs& args) const {
  args.collect(op_.op->name);
  for (const Kept& k : kept_) {
    args.collect(k.is_result);
    if (k.tensor >= 0) {
      args.collect(tensors_[std::size_t(k.tensor)], k.is_result);
    } else {
      Collect(args, k.value);
    }
  }
  for (const int edge : edge_of_target_) args.collect(std::int64_t(edge));
  // The call may make zeros of these sizes (CallGradient).
  for (std::uint32_t r = 0; r < num_inputs(); ++r) {
    for (const std::int64_t size : Sizes(r)) args.collect(size);
  }
}

std::vector<std::int64_t> GradientNode::Sizes(std::uint32_t r) const {
  std::vector<std::int64_t> sizes;
  const std::uint64_t used = op_.wiring ? op_.wiring->differentiable_results : 0;
  if (!(used >> r & 1) || used == 1ull << r) return sizes;
  for (const c10::SymInt& s : input_metadata(r).shape_as_dim_vector()) {
    sizes.push_back(s.guard_int(__FILE__, __LINE__));
  }
  return sizes;
}

// Compiled autograd traces a function of tensors; everything else is part of the function.
variable_list GradientNode::apply_with_saved(const variable_list& gradients,
                                             torch::autograd::SwapSavedVariables& saved) {
  namespace compiled = torch::dynamo::autograd;
  // In between, the saved tensors are those of the program that is traced.
  for (SavedVariable& t : tensors_) saved.before(t);
  std::vector<c10::IValue> arguments = Arguments();
  for (SavedVariable& t : tensors_) saved.after(t);
  std::vector<c10::IValue> tensors;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].isTensor() || !arguments[i].toTensor().defined()) continue;
    places.push_back(i);
    tensors.push_back(std::exchange(arguments[i], c10::IValue()));
  }
  std::vector<std::pair<std::vector<std::int64_t>, at::TensorOptions>> zeros;
  for (std::uint32_t r = 0; r < num_inputs(); ++r) {
    const bool has_sizes = !Sizes(r).empty();
    zeros.emplace_back(Sizes(r), has_sizes ? input_metadata(r).options() : at::TensorOptions());
  }
  const auto call = [shape = shape(), mask = Mask(), arguments, places, zeros](
                        const variable_list& inputs, const std::vector<c10::IValue>& given) {
    std::vector<c10::IValue> all = arguments;
    for (std::size_t i = 0; i < places.size(); ++i) all[places[i]] = given[i];
    const auto make_zeros = [&](int r) {
      const auto& [sizes, options] = zeros[std::size_t(r)];
      return at::zeros(sizes, options);
    };
    return CallGradient(shape, inputs, std::move(all), mask, make_zeros);
  };
  const auto& python = compiled::getPyCompilerInterface();
  const std::vector<at::TypePtr> types(tensors.size(), at::TensorType::get());
  const std::string bound = python->bind_function(saved.get_py_compiler(), name(), call, types,
                                                  /*is_custom_function=*/true,
                                                  /*is_traceable=*/true);
  using Metadata = std::vector<std::optional<torch::autograd::InputMetadata>>;
  return python->call_function(
      saved.get_py_compiler(), "apply_functional", bound, gradients, tensors,
      compiled::IValuePacker<Metadata>::pack(compiled::get_input_metadata(next_edges())));
}

}  // namespace anyop::torch_host
