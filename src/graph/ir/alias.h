// SPDX-License-Identifier: Apache-2.0
// Which values of a graph are the same memory, and which nodes write it.
#pragma once
#include <vector>

#include "graph/ir/graph.h"

namespace anyop {

// A class of values by number: values of different classes share no memory. Views are in the class
// of their base, states that overlap are in one.
std::vector<int> AliasClasses(const Graph& graph);

// Calls f(value) for each tensor that a node reads or changes.
template <class F>
void ForArguments(const GraphNode& node, F&& f) {
  for (const GraphArgument& a : node.arguments) {
    for (const int v : a.values) f(v);
  }
}

// What a node changes in place: `mut` arguments and results written into values.
std::vector<int> WrittenValues(const GraphNode& node);
// Values whose memory some node changes, by number of their root.
std::vector<bool> WrittenRoots(const Graph& graph);

// Whether an operator is a function of Python, which may do more than its signature says.
bool CallsPython(const Operator& op);

}  // namespace anyop
