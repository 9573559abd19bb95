// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/alias.h"

#include <algorithm>

#include "runtime/memory/overlap.h"
#include "runtime/registry/operator.h"

namespace anyop {

std::vector<int> AliasClasses(const Graph& graph) {
  std::vector<int> classes;
  struct State {
    MemoryRange range;
    int value;
    bool operator<(const State& other) const { return range < other.range; }
  };
  std::vector<State> states;
  for (int i = 0; i < int(graph.values.size()); ++i) {
    classes.push_back(graph.Root(i));
    const GraphValue& v = graph.value(i);
    if (!v.array.is_none()) states.push_back({MemoryRange(v.array.tensor()), i});
  }
  // In the order of places and addresses, states that overlap are neighbours. Memory of two places
  // never overlaps, whatever its addresses are.
  std::sort(states.begin(), states.end());
  std::uintptr_t end = 0;
  int first = -1;  // of the run of states that overlap
  std::uint64_t place = 0;
  for (const State& s : states) {
    if (first >= 0 && s.range.place == place && s.range.extent.begin < end) {
      classes[std::size_t(s.value)] = first;
    } else {
      first = s.value;
      end = 0;
    }
    place = s.range.place;
    end = std::max(end, s.range.extent.end);
  }
  for (int i = 0; i < int(graph.values.size()); ++i) {
    classes[std::size_t(i)] = classes[std::size_t(graph.Root(i))];
  }
  return classes;
}

std::vector<int> WrittenValues(const GraphNode& node) {
  std::vector<int> written;
  const Form& form = node.op->contract->forms[0];
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    if (!form.params[i].is_mut) continue;
    const std::vector<int>& values = node.arguments[i].values;
    written.insert(written.end(), values.begin(), values.end());
  }
  for (std::size_t r = 0; r < node.results.size(); ++r) {
    if (node.into >> r & 1) written.push_back(node.results[r]);
  }
  return written;
}

std::vector<bool> WrittenRoots(const Graph& graph) {
  std::vector<bool> written(graph.values.size());
  for (const GraphNode& node : graph.nodes) {
    for (const int v : WrittenValues(node)) written[std::size_t(graph.Root(v))] = true;
  }
  return written;
}

bool CallsPython(const Operator& op) {
  return std::any_of(op.kernels.begin(), op.kernels.end(),
                     [](const OperatorKernel& k) { return k.name == kPythonKernel; });
}

}  // namespace anyop
