// SPDX-License-Identifier: Apache-2.0
// Graphs as text that can be read back (graph/builder/parse_graph.h), a line for each value or
// node:
//
//   input x: f32[n, 64]
//   input eps: float
//   frozen w: f32[64]
//   state cache: f32[16, 64]
//   constant one: f32[1]
//   y: f32[n, 64] = anyop.rms_norm(x, w, eps=eps)  # model.py:31
//   a: f32[n, 32] = slice(y, 1, 0, 32)
//   anyop.copy_rows(a, cache)
//   output y
//
// A declined result is _; a result written into an earlier value is "into name"; what is left out
// of a call has its default.
#pragma once
#include <string>

#include "graph/ir/graph.h"

namespace anyop {

std::string Print(const Graph& graph);

// Parts of the text.
std::string ShowSize(const Graph& graph, const Size& size);  // "2*n + 1"
std::string ShowView(const Graph& graph, const GraphValue& view);
std::string ShowCall(const Graph& graph, const GraphNode& node);

}  // namespace anyop
