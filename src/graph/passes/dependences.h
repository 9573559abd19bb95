// SPDX-License-Identifier: Apache-2.0
// Which nodes of a graph must stay in the order in which the program wrote them.
#pragma once
#include <span>
#include <vector>

#include "graph/ir/graph.h"

namespace anyop {

// By node: the nodes before it that it must follow, each once. What reads memory follows what wrote
// it last, what writes follows who wrote and read before. What changes inputs or state, and what
// calls Python, keeps its order. Whoever needs a size follows the node that says how large it is.
std::vector<std::vector<int>> NodeDependences(const Graph& graph);

// Nodes in another order: node i becomes the one that was order[i]. Values keep their numbers.
void PermuteNodes(Graph* graph, std::span<const int> order);

}  // namespace anyop
