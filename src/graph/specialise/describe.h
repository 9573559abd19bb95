// SPDX-License-Identifier: Apache-2.0
// A graph as data for pictures and programs.
#pragma once
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace anyop {

class Specialisation;

// The work of a node at given sizes.
struct NodeCost {
  std::string kernel;  // "means": the composition
  double flops = 0;    // by .flops; 0: not stated
  double bytes = 0;    // by .bytes, or those of all arguments and results
};
// One per node of the graph.
std::vector<NodeCost> NodeCosts(const Specialisation& s);

// The memory of a value or a workspace in the arena, from node `first` to node `last`; -1: before
// the first node, as many as there are nodes: after the last.
struct MemorySpan {
  int value = -1;  // -1: a workspace, of one node or of the threads of a region
  std::int64_t offset = 0, bytes = 0;
  int first = 0, last = 0;
};
std::vector<MemorySpan> MemorySpans(const Specialisation& s);

// {"values": [...], "nodes": [...], "outputs": [...]} as JSON; values are named by their place in
// the list, views by the value whose memory they are too. at: of these sizes, which adds shapes,
// kernels, costs, "regions" (nodes whose rows run block by block) and "memory"; null: none of
// these, only the graph as it was made.
std::string DescribeGraph(const Graph& graph, const Specialisation* at = nullptr);

}  // namespace anyop
