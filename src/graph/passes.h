// SPDX-License-Identifier: Apache-2.0
// Rewrites of graphs. Each keeps what a replay returns and leaves in state: bit for bit, but for
// .prepack, whose kernels may sum in another order.
#pragma once
#include "graph/graph.h"

namespace anyop {

// Removes nodes whose results nobody uses and which write nothing that is seen later, and values
// that are left without a use. Inputs and outputs stay.
void RemoveDead(Graph* graph);

// A node that repeats an earlier one, with the same arguments not written in between, becomes it.
void RemoveDuplicates(Graph* graph);

// Runs what depends on nothing but constants, frozen state and literals, and the part of .prepack
// that does; the results are frozen state.
void FoldKnown(Graph* graph);

// All of them. log: the graph before and after each that changed it, to the debug log.
void Optimize(Graph* graph, bool log);

}  // namespace anyop
