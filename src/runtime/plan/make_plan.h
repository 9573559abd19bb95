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

// What the kernel must get as a copy, by parameter: not dense where it must be, or scattered.
bool NeedsCopy(const Param& param, const DLTensor& tensor);
// The same at a call, which knows addresses: what is not aligned to its elements, too.
bool MustCopy(const Param& param, const DLTensor& tensor);
bool IsMisaligned(const DLTensor& tensor);
// As NeedsCopy, of a result: it is written to a copy, from where it is copied.
bool ResultNeedsCopy(const DLTensor& tensor);

}  // namespace anyop
