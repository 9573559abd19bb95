// SPDX-License-Identifier: Apache-2.0
#include "runtime/probe.h"
// generator pending
namespace anyop {
ProbeTimes Probe(const Request&, int, int) { return {}; }
}  // namespace anyop
