// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "graph/ir/alias.h"
#include "graph/passes/passes.h"

namespace anyop {
namespace {

class DeadRemover {
 public:
  explicit DeadRemover(Graph* graph) : graph_(*graph), classes_(AliasClasses(*graph)) {}

  void Run() {
    FindLiveNodes();
    FindLiveValues();
    Compact();
  }

 private:
  // From the last node to the first, because memory is needed if a later node or the caller reads
  // it.
  void FindLiveNodes() {
    std::vector<bool> needed(graph_.values.size());
    const auto class_of = [&](int v) { return std::size_t(classes_[std::size_t(v)]); };
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      if (graph_.values[v].kind <= GraphValue::kState) needed[class_of(int(v))] = true;
    }
    for (const GraphOutput& o : graph_.outputs) needed[class_of(o.value)] = true;
    // A symbol's value is needed wherever the symbol may be.
    for (const GraphSymbol& s : graph_.symbols) {
      if (s.value >= 0) needed[class_of(s.value)] = true;
    }
    is_live_.resize(graph_.nodes.size());
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      const GraphNode& node = graph_.nodes[i];
      bool is_live = false;
      for (const int v : node.results) is_live |= v >= 0 && needed[class_of(v)];
      for (const int v : WrittenValues(node)) is_live |= needed[class_of(v)];
      is_live_[i] = is_live;
      if (!is_live) continue;
      ForArguments(node, [&](int v) { needed[class_of(v)] = true; });
      // A node whose result is written into needs the node that makes the memory, though nobody
      // may read what that node wrote.
      for (const int v : WrittenValues(node)) needed[class_of(v)] = true;
    }
  }

  void Keep(int value) {
    while (value >= 0 && !is_kept_[std::size_t(value)]) {
      is_kept_[std::size_t(value)] = true;
      value = graph_.value(value).base;
    }
  }
  void FindLiveValues() {
    is_kept_.resize(graph_.values.size());
    for (const int v : graph_.inputs) Keep(v);
    for (const GraphOutput& o : graph_.outputs) Keep(o.value);
    for (const GraphSymbol& s : graph_.symbols) Keep(s.value);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!is_live_[i]) continue;
      ForArguments(graph_.nodes[i], [&](int v) { Keep(v); });
      for (const int v : graph_.nodes[i].results) Keep(v);
    }
  }

  void Compact() {
    std::vector<int> value_at(graph_.values.size(), -1), node_at(graph_.nodes.size(), -1);
    int n = 0;
    for (std::size_t i = 0; i < node_at.size(); ++i) {
      if (is_live_[i]) node_at[i] = n++;
    }
    n = 0;
    for (std::size_t v = 0; v < value_at.size(); ++v) {
      if (is_kept_[v]) value_at[v] = n++;
    }
    const auto move = [&](int& v) {
      if (v >= 0) v = value_at[std::size_t(v)];
    };
    std::vector<GraphView> views;
    for (GraphValue& v : graph_.values) {
      move(v.base);
      if (v.node >= 0) v.node = node_at[std::size_t(v.node)];
    }
    for (GraphNode& node : graph_.nodes) {
      for (GraphArgument& a : node.arguments) std::for_each(a.values.begin(), a.values.end(), move);
      std::for_each(node.results.begin(), node.results.end(), move);
    }
    std::for_each(graph_.inputs.begin(), graph_.inputs.end(), move);
    for (GraphOutput& o : graph_.outputs) move(o.value);
    for (GraphSymbol& s : graph_.symbols) move(s.value);
    std::size_t k = 0;
    std::erase_if(graph_.values, [&](const GraphValue&) { return !is_kept_[k++]; });
    k = 0;
    std::erase_if(graph_.nodes, [&](const GraphNode&) { return !is_live_[k++]; });
    for (GraphValue& v : graph_.values) {
      if (v.kind != GraphValue::kView) continue;
      views.push_back(std::move(graph_.views[std::size_t(v.view)]));
      v.view = int(views.size()) - 1;
    }
    graph_.views = std::move(views);
  }

  Graph& graph_;
  const std::vector<int> classes_;
  std::vector<bool> is_live_, is_kept_;
};

}  // namespace

void RemoveDead(Graph* graph) { DeadRemover(graph).Run(); }

}  // namespace anyop
