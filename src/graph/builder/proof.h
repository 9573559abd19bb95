// SPDX-License-Identifier: Apache-2.0
// How a call of a graph under construction is inferred: its signature is evaluated over the sizes
// of the graph (size_numbers.h). This gives the shapes of its results and, mostly, proves the call
// right. What cannot be proven is tried at concrete sizes (points.h).
#pragma once
#include <deque>
#include <optional>
#include <vector>

#include "anyop/value.h"
#include "graph/ir/graph.h"
#include "graph/ir/size_numbers.h"
#include "signature/expression.h"

namespace anyop {

// What a call returns. A size that is no polynomial over sizes of the graph is unknown.
struct InferredResult {
  DType dtype;
  std::vector<std::optional<Size>> shape;
};

class GraphProof {
 public:
  // Infers the results of a node, none where its sizes are more than polynomials hold. False if the
  // node may be wrong at some sizes.
  bool Prove(const Graph& graph, const GraphNode& node, std::vector<InferredResult>* results);
  // A whole-numbered expression over the sizes of a call as a polynomial over sizes of the graph.
  // False if it is no polynomial. contract: the one that the expression was compiled for.
  bool Evaluate(const Graph& graph, const Contract& contract, const GraphNode& node,
                const Expression& expression, Size* size);

 private:
  // Writes a node's frame over numbers_; false where a literal of the call looks like a symbol.
  bool FillFrameOf(const Graph& graph, const GraphNode& node, anyop_value* frame,
                   std::vector<const DLTensor*>* lists);
  void AddValues(const Graph& graph);  // those that were not there at the last call
  InferredResult ToInferred(DType dtype, const std::int64_t* shape, int rank);

  SizeNumbers numbers_;
  std::size_t n_numbers_ = 0;  // of them, the sizes of values; the others are of the last call
  std::size_t n_symbols_ = 0;  // of the graph's, those that numbers_ was told of
  std::deque<std::vector<std::int64_t>> shapes_;  // by value, over numbers_
  std::deque<DLTensor> tensors_;
  std::vector<const DLTensor*> places_;  // null for numbers
  std::vector<anyop_value> scalars_;
};

}  // namespace anyop
