// SPDX-License-Identifier: Apache-2.0
// Which nodes of a graph must stay in the order in which the program wrote them.
#pragma once
#include <span>
#include <vector>

#include "graph/ir/graph.h"

namespace anyop {

// By node: the nodes before it that it must follow, each once. A node that reads memory follows the
// one that wrote it last; a node that writes memory follows those that wrote and read it before.
// Nodes that change inputs or state, or call Python, keep their order. A node that needs the size
// of a result follows the node that makes the result.
std::vector<std::vector<int>> NodeDependences(const Graph& graph);

// Nodes in another order: node i becomes the one that was order[i]. Values keep their numbers.
void PermuteNodes(Graph* graph, std::span<const int> order);

}  // namespace anyop
