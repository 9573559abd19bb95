// SPDX-License-Identifier: Apache-2.0
// How many bytes are alive while nodes of a graph run in some order, before its sizes are known.
#pragma once
#include <span>
#include <vector>

#include "graph/ir/graph.h"

namespace anyop {

// `size` where every symbol is `symbol`; at least 0.
double SizeAt(const Size& size, double symbol);

// The memory of results, where every symbol is one number. Inputs, state and results that are
// returned whole lie elsewhere and count as nothing. A result lies in place of an argument at its
// last use, where `over` allows it.
class LiveBytes {
 public:
  LiveBytes(const Graph& graph, double symbol);

  // The most bytes alive at a node of this order.
  double PeakOf(std::span<const int> order);

  struct Step {
    double after = 0, peak = 0;  // bytes alive
  };
  // Node after node, from none on; each must run after those that it depends on.
  void Reset();
  Step Run(int first, int last);
  Step Try(int first, int last);  // the same, undone: to compare nodes that may come next

 private:
  void AddNode(const GraphNode& node);
  double BytesInPlace(const GraphNode& node) const;

  const Graph& graph_;
  std::vector<double> bytes_;           // by value; 0 for what is no result
  std::vector<std::vector<int>> used_;  // by node: results whose memory it uses, each once
  std::vector<int> users_, remaining_;  // by value: nodes, all and those that have not run
  double live_ = 0;
};

}  // namespace anyop
