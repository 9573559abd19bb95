// SPDX-License-Identifier: Apache-2.0
// From a frame to a plan: check, infer, dispatch, estimate, tile.
#pragma once
#include <string>
#include <vector>

#include "runtime/plan/dispatch.h"
#include "runtime/plan/key.h"
#include "runtime/plan/plan.h"

namespace anyop {

// Fills `plan` but for its key. Throws Error with the operator's name in front. choices: see
// Dispatch.
void MakePlan(const Operator& op, const anyop_value* frame, const ScopeState& scope,
              const Policy& policy, Plan* plan, std::vector<KernelChoice>* choices = nullptr);

// .flops or .bytes of a planned call; `otherwise` where it is not stated or not known.
double ValueOf(const Expression& e, const Plan& plan, const anyop_value* frame, double otherwise);

// Whether a call of the plan hands its kernel a copy of `tensor`, which is value i or in the list
// that value i is: a parameter that lies otherwise than kernels take it, by the plan, or is not
// aligned to its elements, which only the call knows; a result that is written to a copy first.
bool IsCopied(const Plan& plan, int i, const DLTensor& tensor);
bool IsMisaligned(const DLTensor& tensor);

}  // namespace anyop
