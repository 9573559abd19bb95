// SPDX-License-Identifier: Apache-2.0
// The one autograd node: it calls the operator that `.gradient` names, wired by names.
#pragma once
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "operator.h"

namespace anyop::torch_host {

// How one call of a gradient is wired.
struct GradientShape {
  const TorchOperator* op;
  std::vector<int> edge_of_target;  // per result of the gradient; -1: no tensor was given
  int n_edges;
};
// Calls the gradient. arguments: per parameter; those that are gradients of results are filled in.
// zeros(r): what stands for the gradient of result r where nothing used it.
torch::autograd::variable_list CallGradient(const GradientShape& shape,
                                            const torch::autograd::variable_list& gradients,
                                            std::vector<c10::IValue> arguments,
                                            const std::vector<bool>& mask,
                                            const std::function<at::Tensor(int)>& zeros);

class GradientNode;
// How torch holds its nodes: by a shared_ptr before 2.12, by an intrusive_ptr since.
using NodePtr = decltype(torch::autograd::Edge::function);
template <class T>
constexpr bool kIsSharedPtr = std::is_same_v<T, std::shared_ptr<torch::autograd::Node>>;
using GradientNodePtr = std::conditional_t<kIsSharedPtr<NodePtr>, std::shared_ptr<GradientNode>,
                                           c10::intrusive_ptr<GradientNode>>;
GradientNodePtr MakeGradientNode(const TorchOperator& op);

class GradientNode final : public torch::autograd::Node {
 public:
  explicit GradientNode(const TorchOperator& op) : op_(op) {}

  // In this order, around the call.
  void SetEdges(const c10::IValue* arguments);
  void SaveArguments(const c10::IValue* arguments);
  void SetHistory(const GradientNodePtr& self, const c10::IValue* results);

  std::string name() const override;
  void release_variables() override;
  void compiled_args(torch::autograd::CompiledNodeArgs& args) const override;
  torch::autograd::variable_list apply_with_saved(
      const torch::autograd::variable_list& gradients,
      torch::autograd::SwapSavedVariables& saved) override;

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;

 private:
  // What a parameter of the gradient is given: a saved tensor, or a value that is no tensor.
  struct Kept {
    int tensor = -1;  // in tensors_
    bool is_result = false;
    c10::IValue value;
  };
  // The saved tensors among the gradient's arguments; null for others.
  std::vector<c10::IValue> Arguments();
  std::vector<bool> Mask();
  // The sizes of result r, if its gradient may be missing; else none.
  std::vector<std::int64_t> Sizes(std::uint32_t r) const;
  GradientShape shape() const { return {&op_, edge_of_target_, int(next_edges().size())}; }

  const TorchOperator& op_;
  std::vector<torch::autograd::SavedVariable> tensors_;
  std::vector<Kept> kept_;           // per parameter of the gradient
  std::vector<int> edge_of_target_;  // per result of the gradient; -1: no tensor was given
};

}  // namespace anyop::torch_host
