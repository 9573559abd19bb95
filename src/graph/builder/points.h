// SPDX-License-Identifier: Apache-2.0
// How a graph under construction is inferred. The signature of each call is evaluated over the
// sizes of the graph (size_numbers.h): this gives the shapes of its results and, mostly, proves the
// call right. Some things are right at some sizes only: a view, a call that asks for equal sizes, a
// fusion. They cannot be proven, and are tried at concrete sizes.
#pragma once
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/ir/frame.h"
#include "graph/ir/layout.h"
#include "signature/check.h"

namespace anyop {

// What a call returns. A size that is no polynomial over sizes of the graph is unknown.
struct InferredResult {
  DType dtype;
  std::vector<std::optional<Size>> shape;
};

// Each point gives every symbol a number. A call that is right at fewer than two points that were
// right so far is refused; points at which it is wrong are given up (a size of 64 may be too large
// for it, or no multiple of 16). Where few are left, others are searched (search_points.cc).
class GraphPoints {
 public:
  // A call at one point.
  struct Tried {
    FrameSource source;
    int form;
    const Bindings& bindings;
    const anyop_value* frame;
  };

  GraphPoints();

  void AddSymbol(const Graph& graph);  // the graph's last one
  void AddTensor(const Graph& graph, int value);
  void AddScalar(const Graph& graph, int value);

  // The error of a view or call that is right at fewer than two points; "" if it is right.
  std::string TryView(const Graph& graph, int base, const GraphView& view);
  std::string TryNode(const Graph& graph, const GraphNode& node);
  // Gives a value the layouts of result `result` of the view or node that was tried last.
  void AddTried(const Graph& graph, int value, int result);
  // A result of the node that was tried.
  const InferredResult& inferred(int result) const { return inferred_[std::size_t(result)]; }
  // Whether the signature takes a call at each point that is left and f holds there. contract: the
  // one that reads the call.
  bool Holds(const Graph& graph, const Contract& contract, const GraphNode& node,
             const std::function<bool(const Tried&)>& f) const;
  // How many points are left.
  int alive() const;
  // A whole-numbered expression over the sizes of a call as a polynomial over sizes of the graph.
  // False if it is no polynomial. contract: the one that the expression was compiled for.
  bool Evaluate(const Graph& graph, const Contract& contract, const GraphNode& node,
                const Expression& expression, Size* size);

 private:
  struct Point {
    std::vector<std::int64_t> symbols;
    std::deque<Layout> layouts;  // by value; tensors point into it
    std::deque<DLTensor> tensors;
    std::vector<const DLTensor*> places;  // by value, null for numbers
    std::vector<anyop_value> scalars;
    std::vector<Layout> tried;  // of the last view or node
    bool is_alive = true;
    std::string error;
  };

  using Attempt = std::function<void(Point&)>;  // throws Error
  // Infers a node over the sizes of the graph. False if it may be wrong at some sizes. Fills
  // inferred_ where it can.
  bool Prove(const Graph& graph, const GraphNode& node);
  // Writes a node's frame over numbers_; false where a literal of the call looks like a symbol.
  bool FillSymbolic(const Graph& graph, const GraphNode& node, anyop_value* frame,
                    std::vector<const DLTensor*>* lists);

  std::string Try(const Graph& graph, const Attempt& f);
  void AddLayout(Point* point, int value, const Layout& layout) const;
  void AddTensorAt(const Graph& graph, int value, Point* point) const;
  void AddScalarAt(const Graph& graph, int value, Point* point) const;
  void Infer(const Graph& graph, const GraphNode& node, Point* point) const;
  void InferFromTried();
  // Computes all layouts so far from the sizes of a point's free symbols. Throws Error where the
  // graph is wrong at these.
  void Rebuild(const Graph& graph, Point* point) const;
  // Adds points at which the graph so far and f are right, other orders of the sizes first.
  void Search(const Graph& graph, const Attempt& f);

  std::deque<Point> points_;  // tensors of a point point into it
  SizeNumbers numbers_;
  std::size_t n_numbers_ = 0;  // of them, the sizes of values; the others are of the last call
  std::size_t n_symbols_ = 0;  // of the graph's, those that numbers_ was told of
  std::deque<std::vector<std::int64_t>> shapes_;  // by value, over numbers_
  std::deque<DLTensor> tensors_;
  std::vector<const DLTensor*> places_;  // null for numbers
  std::vector<anyop_value> scalars_;
  std::vector<InferredResult> inferred_;
};

}  // namespace anyop
