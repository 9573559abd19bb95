// SPDX-License-Identifier: Apache-2.0
// The deep part of check mode, which looks at results: none may be NaN where all inputs are finite,
// and none may be far from the operator's reference in double, if the library of references lies
// beside that of the operator.
#pragma once
#include <vector>

#include "runtime/registry/operator.h"

namespace anyop {

// Made before the kernel runs, because the reference reads what the kernel may overwrite.
class DeepCheck {
 public:
  // frame: the call as the caller gave it.
  DeepCheck(const Operator& op, const Plan& plan, const anyop_value* frame);

  // after: the same frame with the tensors that the kernel wrote. Throws Finding.
  void Compare(const anyop_value* after) const;

 private:
  using Values = std::vector<double>;

  void RunReference(const anyop_value* frame);
  void CompareOne(int index, const DLTensor& got) const;

  const Operator& op_;
  const Plan& plan_;
  bool inputs_are_finite_ = true;
  double largest_input_ = 0;
  bool has_reference_ = false;
  std::vector<Values> exact_;  // by place in the frame: results and `mut` arguments
};

}  // namespace anyop
