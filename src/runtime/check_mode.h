// SPDX-License-Identifier: Apache-2.0
// Check mode: every call of every operator is watched for what its kernel does to memory, and its
// data are looked at (`.check_data`). It swaps the entry of each operator, so that nothing of it is
// in the way of other calls.
#pragma once
#include "runtime/operator.h"

namespace anyop {

// Whether it is on: by ANYOP_CHECK=1, or by SetChecking.
bool IsChecking();
// Of the operators that are there and of those to come; calls that run already end as they began.
void SetChecking(bool on);
// For as long as it lives: one at a time.
class Checking {
 public:
  explicit Checking(bool on = true) { SetChecking(on); }
  ~Checking() { SetChecking(false); }
  Checking(const Checking&) = delete;
  Checking& operator=(const Checking&) = delete;
};

// What an operator's entry is: RunPlan or RunChecked.
Entry CurrentEntry();

// A call in check mode. Its kernel gets copies of what it may write, between guards, and a guarded
// workspace full of NaN; results that share no memory with arguments begin as NaN, too. Then
// nothing but those elements has changed, no argument has, and each element of a result of floats
// is written. Else Internal is thrown and the caller's memory is left as it was.
void RunChecked(Operator& op, Plan& plan, anyop_value* frame);

}  // namespace anyop
