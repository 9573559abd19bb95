// SPDX-License-Identifier: Apache-2.0
// Measuring kernels of which the machine decides the better one: the work of `anyop tune`.
#pragma once
#include <vector>

#include "runtime/plan/tuned.h"

namespace anyop {

// Whether two kernels that this machine can run want to be measured (.probe).
bool HasPairs(const Operator& op);

// Measures every such pair, for each form and each combination of dtypes that both kernels take.
// Tensors have memory of their own, of the sizes that the first kernel's .probe states; it may also
// say what tensors of integers hold. Optional arguments are there only where no call does without.
// The kernels run in turns on one thread after a warm-up, and the least time of each counts.
std::vector<TunedChoice> MeasurePairs(const Operator& op);

}  // namespace anyop
