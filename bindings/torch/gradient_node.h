// SPDX-License-Identifier: Apache-2.0
// The one autograd node: it calls the operator that `.gradient` names, wired by names.
#pragma once
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <vector>

#include "operator.h"

namespace anyop::torch_host {

class GradientNode final : public torch::autograd::Node {
 public:
  explicit GradientNode(const TorchOperator& op) : op_(op) {}

  // In this order, around the call.
  void SetEdges(const c10::IValue* arguments);
  void SaveArguments(const c10::IValue* arguments);
  void SetHistory(const c10::intrusive_ptr<GradientNode>& self, const c10::IValue* results);

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
  c10::IValue ResultGradient(int param, int result, const at::Tensor& gradient) const;
  c10::List<bool> Mask();

  const TorchOperator& op_;
  std::vector<torch::autograd::SavedVariable> tensors_;
  std::vector<Kept> kept_;           // per parameter of the gradient
  std::vector<int> edge_of_target_;  // per result of the gradient; -1: no tensor was given
};

}  // namespace anyop::torch_host
