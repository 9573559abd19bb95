// SPDX-License-Identifier: Apache-2.0
// Rewrites of graphs. Each keeps what a replay returns and leaves in state: bit for bit, but for
// .prepack, whose kernels may sum in another order, and for fusion, whose kernels may keep more
// bits between the steps of a composition than its parts do. Both keep what the operator's comment
// promises; CompileOptions::fuse leaves the latter out.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "graph/ir/graph.h"

namespace anyop {

// Removes nodes whose results nobody uses and which write nothing that is seen later, and values
// that are left without a use. Inputs and outputs stay.
void RemoveDead(Graph* graph);

// A node that repeats an earlier one, with the same arguments not written in between, becomes it.
void RemoveDuplicates(Graph* graph);

// Runs what depends on nothing but constants, frozen state and literals, and the part of .prepack
// that does; the results are frozen state.
void FoldKnown(Graph* graph);

// Puts the nodes into another order where clearly less memory is then alive at once, or more calls
// can share a region. Nodes that depend on one another keep their order (dependences.h).
void OrderNodes(Graph* graph);

// Told of each pass in turn. diff: of the graph as text before and after it; "": nothing changed.
using PassListener = std::function<void(std::string_view pass, const std::string& diff)>;

// All of them. Where ANYOP_LOG is graph or debug, the log gets the graph and what each pass
// changed.
void Optimize(Graph* graph, const PassListener& listener = nullptr, bool fuse = true);

}  // namespace anyop
