// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/dependences.h"

#include <algorithm>
#include <utility>

#include "graph/ir/alias.h"
#include "runtime/registry/operator.h"

namespace anyop {
namespace {

class Follower {
 public:
  explicit Follower(const Graph& graph)
      : graph_(graph),
        classes_(AliasClasses(graph)),
        writer_(graph.values.size(), -1),
        readers_(graph.values.size()),
        is_outside_(graph.values.size()),
        seen_(graph.nodes.size(), -1),
        follows_(graph.nodes.size()) {
    for (int v = 0; v < int(graph.values.size()); ++v) {
      const GraphValue::Kind kind = graph.value(v).kind;
      if (kind == GraphValue::kInput || kind == GraphValue::kState) is_outside_[class_of(v)] = true;
    }
  }

  std::vector<std::vector<int>> Run() {
    for (node_ = 0; node_ < int(graph_.nodes.size()); ++node_) AddNode();
    return std::move(follows_);
  }

 private:
  std::size_t class_of(int v) const { return std::size_t(classes_[std::size_t(v)]); }

  void AddNode() {
    const GraphNode& node = graph_.nodes[std::size_t(node_)];
    bool is_seen = CallsPython(*node.op);
    for (const GraphArgument& a : node.arguments) {
      if (a.kind == GraphArgument::kSize) FollowSize(a.size);
      for (const int v : a.values) Read(v);
    }
    for (const int v : WrittenValues(node)) {
      is_seen |= is_outside_[class_of(v)];
      Write(v);
    }
    // Results that the node makes itself; memory that it writes into has a writer by now.
    for (const int v : node.results) {
      if (v >= 0 && writer_[class_of(v)] < 0) writer_[class_of(v)] = node_;
    }
    if (!is_seen) return;
    Follow(last_seen_);
    last_seen_ = node_;
  }

  void Follow(int earlier) {
    if (earlier < 0 || earlier == node_ || seen_[std::size_t(earlier)] == node_) return;
    seen_[std::size_t(earlier)] = node_;
    follows_[std::size_t(node_)].push_back(earlier);
  }
  void Read(int value) {
    FollowViews(value);
    Follow(writer_[class_of(value)]);
    readers_[class_of(value)].push_back(node_);
  }
  void Write(int value) {
    FollowViews(value);
    const std::size_t c = class_of(value);
    Follow(writer_[c]);
    for (const int reader : readers_[c]) Follow(reader);
    readers_[c].clear();
    writer_[c] = node_;
  }

  // The sizes in a value's views. A size that is a result's must be known when the view is used.
  void FollowViews(int value) {
    for (; graph_.value(value).kind == GraphValue::kView; value = graph_.value(value).base) {
      const GraphView& view = graph_.views[std::size_t(graph_.value(value).view)];
      FollowSize(view.begin);
      FollowSize(view.end);
      for (const Size& s : view.shape) FollowSize(s);
    }
  }
  void FollowSize(const Size& size) {
    for (const SizeTerm& t : size.terms()) {
      for (const int s : t.symbols) {
        const int value = graph_.symbols[std::size_t(s)].value;
        if (value >= 0) Follow(graph_.value(graph_.Root(value)).node);
      }
    }
  }

  const Graph& graph_;
  const std::vector<int> classes_;
  std::vector<int> writer_;                // by class: the last one
  std::vector<std::vector<int>> readers_;  // by class: since then
  std::vector<bool> is_outside_;           // by class: inputs and state
  std::vector<int> seen_;                  // by node: the last that follows it
  std::vector<std::vector<int>> follows_;
  int node_ = 0, last_seen_ = -1;
};

}  // namespace

std::vector<std::vector<int>> NodeDependences(const Graph& graph) { return Follower(graph).Run(); }

void PermuteNodes(Graph* graph, std::span<const int> order) {
  std::vector<GraphNode> nodes;
  std::vector<int> now_at(order.size());
  for (const int from : order) {
    now_at[std::size_t(from)] = int(nodes.size());
    nodes.push_back(std::move(graph->nodes[std::size_t(from)]));
  }
  graph->nodes = std::move(nodes);
  for (GraphValue& v : graph->values) {
    if (v.node >= 0) v.node = now_at[std::size_t(v.node)];
  }
}

}  // namespace anyop
