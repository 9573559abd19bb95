// SPDX-License-Identifier: Apache-2.0
// Statements are matched from the last to the first: an argument that is the result of an earlier
// statement names the node to compare with that statement, so that few nodes are tried.
#include <algorithm>
#include <numeric>
#include <string_view>

#include "graph/ir/argument.h"
#include "graph/passes/pattern.h"
#include "signature/defaults.h"

namespace anyop {
namespace {

using Orders = std::vector<std::vector<int>>;

// Ways to read the arguments of an operator: parameters that commute change places.
Orders OrdersOf(const Operator& op) {
  std::vector<int> order(std::size_t(op.n_params)), places;
  std::iota(order.begin(), order.end(), 0);
  const std::string_view text = op.data->commutes ? op.data->commutes : "";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string_view name = text.substr(begin, end - begin);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    const int p = op.contract->param(name);
    if (p >= 0) places.push_back(p);
    begin = end + 1;
  }
  std::sort(places.begin(), places.end());
  Orders orders;
  std::vector<int> way = places;
  do {
    for (std::size_t k = 0; k < places.size(); ++k) order[std::size_t(places[k])] = way[k];
    orders.push_back(order);
  } while (std::next_permutation(way.begin(), way.end()));
  return orders;
}

class Matcher {
 public:
  Matcher(const Graph& graph, const Pattern& pattern,
          const std::function<bool(const PatternMatch&)>& accept)
      : graph_(graph), pattern_(pattern), accept_(accept) {}

  bool Run(int last) {
    const std::size_t n = pattern_.statements.size();
    State state;
    state.match.pattern = &pattern_;
    state.match.nodes.assign(n, -1);
    state.match.values.assign(std::size_t(pattern_.n_variables), kUnset);
    state.match.arguments.resize(std::size_t(pattern_.op->n_params));
    state.is_set = pattern_.absent;
    return TryNode(int(n) - 1, last, state);
  }

 private:
  static constexpr int kUnset = -2;

  struct State {
    PatternMatch match;
    std::uint64_t is_set = 0;  // arguments, by bit
  };

  // Statement k and all before it.
  bool TryStatement(int k, const State& state) const {
    if (k < 0) return Finish(state);
    const PatternStatement& s = pattern_.statements[std::size_t(k)];
    for (const int variable : s.results) {
      const int value = state.match.values[std::size_t(variable)];
      if (value < 0) continue;
      const GraphValue& v = graph_.value(value);
      return v.kind == GraphValue::kResult && TryNode(k, v.node, state);
    }
    for (int node = 0; node < int(graph_.nodes.size()); ++node) {
      if (TryNode(k, node, state)) return true;
    }
    return false;
  }

  bool TryNode(int k, int number, const State& state) const {
    const PatternStatement& s = pattern_.statements[std::size_t(k)];
    const std::vector<int>& used = state.match.nodes;
    if (graph_.nodes[std::size_t(number)].op != s.op ||
        std::find(used.begin(), used.end(), number) != used.end()) {
      return false;
    }
    const GraphNode& node = graph_.nodes[std::size_t(number)];
    State with_results = state;
    with_results.match.nodes[std::size_t(k)] = number;
    for (std::size_t r = 0; r < s.results.size(); ++r) {
      int& value = with_results.match.values[std::size_t(s.results[r])];
      if (value != kUnset && value != node.results[r]) return false;
      value = node.results[r];
    }
    for (const std::vector<int>& order : OrdersOf(*s.op)) {
      State next = with_results;
      if (MatchArguments(s, node, order, &next) && TryStatement(k - 1, next)) return true;
    }
    return false;
  }

  bool MatchArguments(const PatternStatement& s, const GraphNode& node,
                      const std::vector<int>& order, State* state) const {
    for (std::size_t i = 0; i < s.arguments.size(); ++i) {
      const GraphArgument& given = node.arguments[std::size_t(order[i])];
      if (!MatchArgument(s.arguments[i], given, state)) return false;
    }
    return true;
  }

  bool MatchArgument(const PatternArgument& a, const GraphArgument& given, State* state) const {
    switch (a.kind) {
      case PatternArgument::kLiteral:
        return a.literal == given;
      case PatternArgument::kParameter:
        return MatchParameter(a.index, given, state);
      case PatternArgument::kVariable: {
        if (given.kind != GraphArgument::kValue) return false;
        int& value = state->match.values[std::size_t(a.index)];
        if (value == kUnset) value = given.values[0];
        return value == given.values[0];
      }
      case PatternArgument::kComputed:
        state->match.computed.push_back({a.computed, given});
        return true;
    }
    return false;
  }

  bool MatchParameter(int i, GraphArgument given, State* state) const {
    const Param& p = pattern_.op->contract->forms[0].params[std::size_t(i)];
    if (p.kind == ParamKind::kFloat && given.kind == GraphArgument::kInt) {
      given = FloatArgument(double(given.i));
    } else if (p.kind == ParamKind::kInt && given.kind == GraphArgument::kFloat) {
      if (given.f != double(std::int64_t(given.f))) return false;
      given = IntArgument(std::int64_t(given.f));
    }
    GraphArgument& argument = state->match.arguments[std::size_t(i)];
    const bool is_new = !(state->is_set >> i & 1);
    if (is_new) argument = given;
    state->is_set |= 1ull << i;
    return is_new || IsSame(argument, given);
  }

  bool IsSame(const GraphArgument& a, const GraphArgument& b) const {
    if (a == b) return true;
    return a.kind == b.kind && a.values.size() == b.values.size() && !a.values.empty() &&
           std::equal(a.values.begin(), a.values.end(), b.values.begin(),
                      [&](int v, int w) { return IsSameValue(v, w); });
  }
  bool IsSameValue(int v, int w) const {
    if (v == w) return true;
    const GraphValue &a = graph_.value(v), &b = graph_.value(w);
    return a.kind == GraphValue::kView && b.kind == GraphValue::kView && a.dtype == b.dtype &&
           graph_.views[std::size_t(a.view)] == graph_.views[std::size_t(b.view)] &&
           IsSameValue(a.base, b.base);
  }

  // Parameters that no statement uses have their defaults.
  bool Finish(const State& state) const {
    State done = state;
    const Contract& contract = *pattern_.op->contract;
    for (int i = 0; i < pattern_.op->n_params; ++i) {
      anyop_value v{};
      if (done.is_set >> i & 1) continue;
      if (!DefaultValue(contract, i, &v)) return false;
      done.match.arguments[std::size_t(i)] = LiteralArgument(v);
    }
    for (int& v : done.match.values) v = std::max(v, -1);
    return accept_(done.match);
  }

  const Graph& graph_;
  const Pattern& pattern_;
  const std::function<bool(const PatternMatch&)>& accept_;
};

}  // namespace

bool MatchPattern(const Graph& graph, const Pattern& pattern, int last,
                  const std::function<bool(const PatternMatch&)>& accept) {
  if (graph.nodes[std::size_t(last)].op != pattern.statements.back().op) return false;
  return Matcher(graph, pattern, accept).Run(last);
}

}  // namespace anyop
