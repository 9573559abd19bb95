// SPDX-License-Identifier: Apache-2.0
// Concrete sizes at which a graph under construction is inferred: a signature knows every rule
// about sizes, and says of a call with numbers whether it is right and what it returns.
#pragma once
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "graph/builder/fit.h"
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

  // What is wrong with a view or call at all points but one; "" if it is right.
  std::string TryView(const Graph& graph, int base, const GraphView& view);
  std::string TryNode(const Graph& graph, const GraphNode& node);
  // Makes what was tried, result `result` of it, the layout of a value.
  void AddTried(const Graph& graph, int value, int result);
  const ResultShape& tried(int result) const;
  // The size of a result that was tried as a polynomial over sizes of the graph; false: none found.
  bool Fit(const Graph& graph, const GraphNode& node, int result, int dimension, Size* size) const;
  // Whether the signature takes a call at each point that is left and f holds there. contract: that
  // the call is read by.
  bool Holds(const Graph& graph, const Contract& contract, const GraphNode& node,
             const std::function<bool(const Tried&)>& f) const;
  // How many points are left.
  int alive() const;
  // Likewise a whole-numbered expression over the sizes of a call. contract: the expression's.
  bool Evaluate(const Graph& graph, const Contract& contract, const GraphNode& node,
                const Expression& expression, Size* size) const;

 private:
  struct Point {
    std::vector<std::int64_t> symbols;
    std::deque<Layout> layouts;  // by value; tensors point into it
    std::deque<DLTensor> tensors;
    std::vector<const DLTensor*> places;  // by value, null for numbers
    std::vector<anyop_value> scalars;
    std::vector<Layout> tried;  // of the last view or node
    ResultShape results[kMaxResults];
    bool is_alive = true;
    std::string error;
  };

  using Attempt = std::function<void(Point&)>;  // throws Error

  std::string Try(const Graph& graph, const Attempt& f);
  void AddLayout(Point* point, int value, const Layout& layout) const;
  void AddTensorAt(const Graph& graph, int value, Point* point) const;
  void AddScalarAt(const Graph& graph, int value, Point* point) const;
  void Infer(const Graph& graph, const GraphNode& node, Point* point) const;
  // Everything so far at the sizes of a point's free symbols. Throws Error where it is wrong there.
  void Rebuild(const Graph& graph, Point* point) const;
  // Adds points at which the graph so far and f are right, other orders of the sizes first.
  void Search(const Graph& graph, const Attempt& f);
  std::vector<KnownSize> Known(const Graph& graph, const GraphNode& node) const;

  std::deque<Point> points_;  // tensors of a point point into it
};

}  // namespace anyop
