// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "graph/alias.h"
#include "graph/passes.h"

namespace anyop {
namespace {

class DuplicateRemover {
 public:
  explicit DuplicateRemover(Graph* graph)
      : graph_(*graph),
        classes_(AliasClasses(*graph)),
        version_(graph->values.size()),
        is_written_(graph->values.size()),
        same_(graph->values.size()) {
    for (std::size_t v = 0; v < same_.size(); ++v) same_[v] = int(v);
    for (const GraphNode& node : graph_.nodes) {
      for (const int v : WrittenValues(node)) is_written_[class_of(v)] = true;
    }
  }

  void Run() {
    // Values are in the order of their making, but a node may have none.
    std::size_t next = 0;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      int last = -1;
      ForArguments(graph_.nodes[i], [&](int v) { last = std::max(last, v); });
      for (; int(next) <= last; ++next) UnifyView(int(next));
      UnifyNode(int(i));
    }
    for (; next < graph_.values.size(); ++next) UnifyView(int(next));
    for (GraphOutput& o : graph_.outputs) o.value = same(o.value);
  }

 private:
  std::size_t class_of(int v) const { return std::size_t(classes_[std::size_t(v)]); }
  int same(int v) const { return same_[std::size_t(v)]; }

  void UnifyView(int value) {
    GraphValue& v = graph_.value(value);
    if (v.kind != GraphValue::kView) return;
    v.base = same(v.base);
    for (const int other : views_[v.base]) {
      const GraphValue& o = graph_.value(other);
      if (!(graph_.views[std::size_t(o.view)] == graph_.views[std::size_t(v.view)])) continue;
      same_[std::size_t(value)] = other;
      return;
    }
    views_[v.base].push_back(value);
  }

  void UnifyNode(int number) {
    GraphNode& node = graph_.nodes[std::size_t(number)];
    for (GraphArgument& a : node.arguments) {
      for (int& v : a.values) v = same(v);
    }
    const std::vector<int> written = WrittenValues(node);
    if (!written.empty()) {
      for (const int v : written) ++version_[class_of(v)];
      return;
    }
    for (const int v : node.results) {
      if (v >= 0 && is_written_[class_of(v)]) return;
    }
    for (const Seen& s : seen_[node.op]) {
      if (!IsSame(graph_.nodes[std::size_t(s.node)], s, node)) continue;
      const std::vector<int>& first = graph_.nodes[std::size_t(s.node)].results;
      for (std::size_t r = 0; r < first.size(); ++r) {
        if (first[r] >= 0) same_[std::size_t(node.results[r])] = first[r];
      }
      return;
    }
    seen_[node.op].push_back({number, Versions(node)});
  }

  std::vector<int> Versions(const GraphNode& node) const {
    std::vector<int> versions;
    ForArguments(node, [&](int v) { versions.push_back(version_[class_of(v)]); });
    return versions;
  }

  struct Seen {
    int node;
    std::vector<int> versions;  // of its arguments' memory
  };
  bool IsSame(const GraphNode& earlier, const Seen& seen, const GraphNode& node) const {
    if (earlier.arguments != node.arguments || seen.versions != Versions(node)) return false;
    for (std::size_t r = 0; r < node.results.size(); ++r) {
      if ((earlier.results[r] < 0) != (node.results[r] < 0)) return false;
    }
    return true;
  }

  Graph& graph_;
  const std::vector<int> classes_;
  std::vector<int> version_;      // by class: how often it was written so far
  std::vector<bool> is_written_;  // by class: ever
  std::vector<int> same_;         // by value: the one that stands for it
  std::map<Operator*, std::vector<Seen>> seen_;
  std::map<int, std::vector<int>> views_;  // by base
};

}  // namespace

void RemoveDuplicates(Graph* graph) { DuplicateRemover(graph).Run(); }

}  // namespace anyop
