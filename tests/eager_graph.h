// SPDX-License-Identifier: Apache-2.0
// Runs a graph as its program would: one call after the other, each value in memory of its own.
#pragma once
#include <deque>
#include <vector>

#include "anyop/tensor.h"
#include "graph/ir/frame.h"
#include "graph/ir/layout.h"
#include "runtime/run/call.h"

namespace anyop::testing {

class EagerGraph {
 public:
  // states: by value; memory that stands in for that of the graph.
  EagerGraph(const Graph& graph, std::vector<std::int64_t> symbols, std::vector<anyop_value> inputs,
             const std::vector<Array>& states)
      : graph_(graph),
        symbols_(std::move(symbols)),
        layouts_(graph.values.size()),
        tensors_(graph.values.size()),
        at_(graph.values.size(), nullptr),
        scalars_(graph.values.size()) {
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const int v = graph.inputs[k];
      if (inputs[k].tag == ANYOP_TENSOR) {
        const DLTensor& t = *inputs[k].t;
        Set(v, LayoutOf(t), BaseOf(t));
      } else {
        scalars_[std::size_t(v)] = inputs[k];
      }
    }
    for (std::size_t v = 0; v < states.size(); ++v) {
      if (!states[v].is_none()) Set(int(v), LayoutOf(states[v].tensor()), states[v].data());
    }
  }

  // Contiguous copies of the outputs. Throws what a call throws.
  std::vector<Array> Run() {
    for (const GraphNode& node : graph_.nodes) RunNode(node);
    std::vector<Array> outputs;
    for (const GraphOutput& o : graph_.outputs) {
      Ensure(o.value);
      outputs.push_back(Array::Wrap(*at_[std::size_t(o.value)]).Clone());
    }
    return outputs;
  }

 private:
  void Set(int value, const Layout& layout, void* root) {
    layouts_[std::size_t(value)] = layout;
    roots_.resize(graph_.values.size());
    roots_[std::size_t(value)] = root;
    tensors_[std::size_t(value)] = TensorOf(layouts_[std::size_t(value)], root);
    at_[std::size_t(value)] = &tensors_[std::size_t(value)];
    for (std::size_t k = 0; k < graph_.symbols.size(); ++k) {
      const GraphSymbol& s = graph_.symbols[k];
      if (s.value == value) symbols_[k] = layout.shape[s.dimension];
    }
  }
  void Ensure(int value) {
    const GraphValue& v = graph_.value(value);
    if (at_[std::size_t(value)] || v.kind != GraphValue::kView) return;
    Ensure(v.base);
    Set(value, Viewed(layouts_[std::size_t(v.base)], graph_.views[std::size_t(v.view)], symbols_),
        roots_[std::size_t(v.base)]);
  }

  void RunNode(const GraphNode& node) {
    for (const GraphArgument& a : node.arguments) {
      for (const int v : a.values) Ensure(v);
    }
    for (const int v : node.results) {
      if (v >= 0) Ensure(v);
    }
    anyop_value frame[kMaxParams + kMaxResults];
    std::vector<const DLTensor*> lists(ListElements(node) + 1);
    FillFrame({graph_, symbols_, at_, scalars_}, node, frame, lists.data());
    const HeldPlan plan = GetPlan(*node.op, frame);
    for (int r = 0; r < node.op->n_results; ++r) {
      const int v = node.results[std::size_t(r)];
      if (v < 0 || IsInto(node, r)) continue;
      const ResultShape& s = plan->results[r];
      memory_.push_back(Array::Empty({s.shape, std::size_t(s.rank)}, s.dtype));
      Set(v, LayoutOf(memory_.back().tensor()), memory_.back().data());
      frame[node.op->n_params + r].tag = ANYOP_TENSOR;
      frame[node.op->n_params + r].t = at_[std::size_t(v)];
    }
    anyop::Run(*node.op, *plan, frame);
  }

  const Graph& graph_;
  std::vector<std::int64_t> symbols_;
  std::vector<Layout> layouts_;
  std::vector<DLTensor> tensors_;
  std::vector<const DLTensor*> at_;
  std::vector<anyop_value> scalars_;
  std::vector<void*> roots_;
  std::deque<Array> memory_;
};

}  // namespace anyop::testing
