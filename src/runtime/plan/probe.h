// SPDX-License-Identifier: Apache-2.0
// Measuring kernels of which the machine decides the better one: the work of `anyop tune`.
#pragma once
#include <vector>

#include "runtime/plan/tuned.h"

namespace anyop {

// Whether two kernels that this machine can run want to be measured (.probe).
bool HasPairs(const Operator& op);

// Every such pair, for each form and each combination of dtypes that both kernels take. Private
// buffers of the sizes that the first kernel's .probe states, which may also name tensors of
// integers and what they hold; optional arguments only where no call does without. Interleaved
// rounds on one thread after a warm-up, the minimum of each.
std::vector<TunedChoice> MeasurePairs(const Operator& op);

}  // namespace anyop
