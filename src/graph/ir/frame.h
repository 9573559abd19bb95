// SPDX-License-Identifier: Apache-2.0
// The frame of a node, once sizes and numbers are known.
#pragma once
#include <span>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/size_numbers.h"

namespace anyop {

// The values that the arguments of nodes stand for.
struct FrameSource {
  const Graph& graph;
  std::span<const std::int64_t> symbols;
  std::span<const DLTensor* const> tensors;  // by value; null for those that are no tensors
  std::span<const anyop_value> scalars;      // by value
  SizeNumbers* numbers = nullptr;            // where sizes are symbols, not numbers of `symbols`
};

// Writes parameters and results of `node` to `frame`: n_params + n_results values that point into
// the graph and the tensors. Results other than those written into a value stay empty. lists:
// room for the elements of lists of tensors, ListElements(node) of them.
void FillFrame(const FrameSource& source, const GraphNode& node, anyop_value* frame,
               const DLTensor** lists);
std::size_t ListElements(const GraphNode& node);

// A literal as a value that points into it; a word without its number. None for anything else.
anyop_value LiteralOf(const GraphArgument& argument);

// Parameters of a node whose value only a call knows, by bit.
std::uint64_t ScalarParams(const Graph& graph, const GraphNode& node);

// Whether result r of a node is written into a value that exists already.
inline bool IsInto(const GraphNode& node, int r) { return node.into >> r & 1; }

}  // namespace anyop
