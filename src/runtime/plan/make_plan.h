// SPDX-License-Identifier: Apache-2.0
// From a frame to a plan: check, infer, dispatch, estimate, tile.
#pragma once
#include <string>
#include <vector>

#include "runtime/plan/dispatch.h"
#include "runtime/plan/key.h"
#include "runtime/plan/plan.h"

namespace anyop {

// Fills all of `plan` but its key. Throws Error with the operator's name in front. choices: see
// Dispatch.
void MakePlan(const Operator& op, const anyop_value* frame, const ScopeState& scope,
              const Policy& policy, Plan* plan, std::vector<KernelChoice>* choices = nullptr);

// .flops or .bytes of a planned call; `otherwise` where it is not stated or not known.
double ValueOf(const Expression& e, const Plan& plan, const anyop_value* frame, double otherwise);

// Whether a call of the plan hands its kernel a copy in place of `tensor`, which is value i or an
// element of the list that value i is. A parameter is copied if no kernel takes it as it lies,
// which the plan knows, or if it is not aligned to its elements, which only the call knows. A
// result is written to a copy first if no kernel writes with its strides.
bool IsCopied(const Plan& plan, int i, const DLTensor& tensor);
bool IsMisaligned(const DLTensor& tensor);

}  // namespace anyop
