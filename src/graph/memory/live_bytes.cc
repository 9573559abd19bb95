// SPDX-License-Identifier: Apache-2.0
#include "graph/memory/live_bytes.h"

#include <algorithm>

#include "graph/ir/alias.h"
#include "runtime/registry/operator.h"

namespace anyop {

double SizeAt(const Size& size, double symbol) {
  double sum = 0;
  for (const SizeTerm& t : size.terms()) {
    double product = double(t.factor);
    for (std::size_t i = 0; i < t.symbols.size(); ++i) product *= symbol;
    sum += product;
  }
  return std::max(sum, 0.0);
}

LiveBytes::LiveBytes(const Graph& graph, double symbol)
    : graph_(graph), bytes_(graph.values.size()), users_(graph.values.size()) {
  const auto bytes = [&](int value) {
    double product = double(Bytes(graph_.value(value).dtype));
    for (const Size& s : graph_.value(value).shape) product *= SizeAt(s, symbol);
    return product;
  };
  for (int v = 0; v < int(bytes_.size()); ++v) {
    if (graph_.value(v).kind == GraphValue::kResult) bytes_[std::size_t(v)] = bytes(v);
  }
  for (const GraphNode& node : graph_.nodes) AddNode(node);
  for (const GraphOutput& o : graph_.outputs) {
    const std::size_t root = std::size_t(graph_.Root(o.value));
    ++users_[root];
    if (bytes_[root] <= bytes(o.value)) bytes_[root] = 0;  // it is made in the caller's memory
  }
}

void LiveBytes::AddNode(const GraphNode& node) {
  std::vector<int>& used = used_.emplace_back();
  const auto use = [&](int value) {
    const int root = graph_.Root(value);
    const bool is_result = graph_.value(root).kind == GraphValue::kResult;
    if (!is_result || std::find(used.begin(), used.end(), root) != used.end()) return;
    used.push_back(root);
    ++users_[std::size_t(root)];
  };
  ForArguments(node, use);
  for (const int v : node.results) {
    if (v >= 0) use(v);
  }
}

void LiveBytes::Reset() {
  remaining_ = users_;
  live_ = 0;
}

// The bytes of the node's results that take the place of an argument at its last use. Each argument
// gives its place once.
double LiveBytes::BytesInPlace(const GraphNode& node) const {
  double bytes = 0;
  std::uint64_t taken = 0;  // parameters
  const std::vector<Result>& results = node.op->contract->forms[0].results;
  for (std::size_t r = 0; r < node.results.size(); ++r) {
    const int result = node.results[r];
    if (result < 0 || node.into >> r & 1) continue;
    for (std::size_t i = 0; i < node.arguments.size(); ++i) {
      const std::vector<int>& values = node.arguments[i].values;
      if (!(results[r].over & ~taken & 1ull << i) || values.size() != 1) continue;
      const std::size_t root = std::size_t(graph_.Root(values[0]));
      if (remaining_[root] != 1 || bytes_[root] != bytes_[std::size_t(result)]) continue;
      taken |= 1ull << i;
      bytes += bytes_[root];
      break;
    }
  }
  return bytes;
}

LiveBytes::Step LiveBytes::Run(int first, int last) {
  Step step{live_, live_};
  for (int i = first; i <= last; ++i) {
    const GraphNode& node = graph_.nodes[std::size_t(i)];
    double made = 0;
    for (std::size_t r = 0; r < node.results.size(); ++r) {
      const int v = node.results[r];
      if (v >= 0 && !(node.into >> r & 1)) made += bytes_[std::size_t(v)];
    }
    live_ += made;
    step.peak = std::max(step.peak, live_ - (made > 0 ? BytesInPlace(node) : 0));
    for (const int root : used_[std::size_t(i)]) {
      if (--remaining_[std::size_t(root)] == 0) live_ -= bytes_[std::size_t(root)];
    }
  }
  step.after = live_;
  return step;
}

LiveBytes::Step LiveBytes::Try(int first, int last) {
  const double before = live_;
  const Step step = Run(first, last);
  for (int i = first; i <= last; ++i) {
    for (const int root : used_[std::size_t(i)]) ++remaining_[std::size_t(root)];
  }
  live_ = before;
  return step;
}

double LiveBytes::PeakOf(std::span<const int> order) {
  Reset();
  double peak = 0;
  for (const int node : order) peak = std::max(peak, Run(node, node).peak);
  return peak;
}

}  // namespace anyop
