// SPDX-License-Identifier: Apache-2.0
// Runs a graph that nobody will run again.
#pragma once
#include <vector>

#include "graph/ir/graph.h"

namespace anyop {

// The outputs of a graph without inputs, without passes and without keeping a specialisation.
// Throws what its operators throw.
std::vector<Array> RunOnce(Graph graph);

}  // namespace anyop
