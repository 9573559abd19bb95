// SPDX-License-Identifier: Apache-2.0
// Concrete sizes at which a graph under construction is tried. Some things are right at some sizes
// only: a view, a call that asks for equal sizes, a fusion. They cannot be proven (proof.h).
#pragma once
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "graph/builder/proof.h"
#include "graph/ir/frame.h"
#include "graph/ir/layout.h"
#include "signature/check.h"

namespace anyop {

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
  // The same of a node that is proven: its results may still be too large at some points.
  std::string TryProven(const Graph& graph, const std::vector<InferredResult>& results);
  // What the points tell of the results of the node that was tried last: dtypes and ranks. No size
  // is known, so that each gets a symbol of its own.
  std::vector<InferredResult> TriedResults() const;
  // Gives a value the layouts of result `result` of the view or node that was tried last.
  void AddTried(const Graph& graph, int value, int result);
  // Whether the signature takes a call at each point that is left and f holds there. contract: the
  // one that reads the call.
  bool Holds(const Graph& graph, const Contract& contract, const GraphNode& node,
             const std::function<bool(const Tried&)>& f) const;
  // How many points are left.
  int alive() const;

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

  std::string Try(const Graph& graph, const Attempt& f);
  void AddLayout(Point* point, int value, const Layout& layout) const;
  void AddTensorAt(const Graph& graph, int value, Point* point) const;
  void AddScalarAt(const Graph& graph, int value, Point* point) const;
  void Infer(const Graph& graph, const GraphNode& node, Point* point) const;
  // Computes all layouts so far from the sizes of a point's free symbols. Throws Error where the
  // graph is wrong at these.
  void Rebuild(const Graph& graph, Point* point) const;
  // Adds points at which the graph so far and f are right, other orders of the sizes first.
  void Search(const Graph& graph, const Attempt& f);

  std::deque<Point> points_;  // tensors of a point point into it
};

}  // namespace anyop
