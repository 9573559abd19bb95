// SPDX-License-Identifier: Apache-2.0
// Measuring two kernels of which the machine decides the better one.
#pragma once
#include "runtime/dispatch.h"

namespace anyop {

struct ProbeTimes {
  bool is_measured = false;
  double first_ns = 0, second_ns = 0;
};

// Once per process, pair of kernels and dtypes; later calls return what was measured then. Private
// buffers of the sizes that the first kernel's .probe states, which may also name tensors of
// integers and what they hold; five interleaved pairs after a warm-up, the minimum of each. Not
// measured if no call of these sizes can be generated.
ProbeTimes Probe(const Request& request, int first, int second);

}  // namespace anyop
