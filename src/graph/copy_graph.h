// SPDX-License-Identifier: Apache-2.0
// Copies a graph call by call into a new builder, so that a pass may put other calls in their
// place: what is new is checked and inferred as everything is.
#pragma once
#include <vector>

#include "graph/builder.h"

namespace anyop {

class GraphCopy {
 public:
  explicit GraphCopy(const Graph& from);

  // The inputs, in their order: a whole graph begins with them.
  void CopyInputs();
  // The copy of a value; states, constants and views are copied at their first use.
  int Value(int value);
  std::vector<GraphArgument> Arguments(const GraphNode& node);
  // Calls what the node calls.
  void CopyNode(const GraphNode& node);
  // `copies` of this builder stand for the results of a node, -1 for those that are declined.
  void SetResults(const GraphNode& node, const std::vector<int>& copies);
  void CopyOutputs();
  // This name, or one after it that no value of either graph has.
  std::string FreeName(const std::string& name) const;

  GraphBuilder builder;

 private:
  Size Mapped(const Size& size);
  std::vector<Size> Mapped(const std::vector<Size>& sizes);
  void SetValue(int value, int copy);

  const Graph& from_;
  std::vector<int> copy_of_;   // by value; -1: not yet
  std::vector<Size> symbols_;  // by symbol
};

}  // namespace anyop
