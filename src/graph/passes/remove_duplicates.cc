// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>

#include "graph/ir/alias.h"
#include "graph/ir/text.h"
#include "graph/passes/passes.h"
#include "runtime/registry/operator.h"

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
    // Views are unified before the first node that uses them: values are numbered in the order of
    // their making, so those up to the node's last argument are all it can use.
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
    const auto [earlier, is_new] = seen_.emplace(Meaning(node), number);
    if (is_new) return;
    const std::vector<int>& first = graph_.nodes[std::size_t(earlier->second)].results;
    for (std::size_t r = 0; r < first.size(); ++r) {
      if (first[r] >= 0) same_[std::size_t(node.results[r])] = first[r];
    }
  }

  // Equal for calls that compute the same: the call, the version of its arguments' memory, and
  // which results it computes.
  std::string Meaning(const GraphNode& node) const {
    std::string text = std::to_string(node.op->index) + ShowCall(graph_, node);
    ForArguments(node, [&](int v) { text += " " + std::to_string(version_[class_of(v)]); });
    for (const int v : node.results) text += v < 0 ? "_" : ".";
    return text;
  }

  Graph& graph_;
  const std::vector<int> classes_;
  std::vector<int> version_;               // by class: how often it was written so far
  std::vector<bool> is_written_;           // by class: ever
  std::vector<int> same_;                  // by value: the one that stands for it
  std::map<std::string, int> seen_;        // nodes by meaning
  std::map<int, std::vector<int>> views_;  // by base
};

}  // namespace

void RemoveDuplicates(Graph* graph) { DuplicateRemover(graph).Run(); }

}  // namespace anyop
