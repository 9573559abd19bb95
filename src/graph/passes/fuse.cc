// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/fuse.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "anyop/scope.h"
#include "graph/builder/copy_graph.h"
#include "graph/builder/points.h"
#include "graph/ir/alias.h"
#include "graph/passes/passes.h"
#include "graph/passes/pattern.h"
#include "platform/error.h"
#include "runtime/plan/dispatch.h"

namespace anyop {
namespace {

// What a node reads and writes, as classes of memory; the results that it makes are written.
struct Access {
  std::set<int> reads, writes;
};
bool Meet(const std::set<int>& a, const std::set<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int c) { return b.contains(c); });
}
bool MustKeepOrder(const Access& a, const Access& b) {
  return Meet(a.writes, b.reads) || Meet(a.writes, b.writes) || Meet(a.reads, b.writes);
}

// Whether a match may become one node, and at which of its places that node may stand.
class MoveCheck {
 public:
  explicit MoveCheck(const Graph& graph) : graph_(graph), classes_(AliasClasses(graph)) {
    for (const GraphNode& node : graph.nodes) {
      Access a;
      ForArguments(node, [&](int v) { a.reads.insert(class_of(v)); });
      for (const int v : WrittenValues(node)) a.writes.insert(class_of(v));
      for (const int v : node.results) {
        if (v >= 0) a.writes.insert(class_of(v));
      }
      accesses_.push_back(std::move(a));
    }
    for (const GraphOutput& o : graph.outputs) returned_.insert(class_of(o.value));
    for (const GraphSymbol& s : graph.symbols) {
      if (s.value >= 0) returned_.insert(class_of(s.value));
    }
  }

  // The number of the match's node at which all may run; -1: nowhere.
  int Place(const PatternMatch& m) const {
    std::vector<int> nodes = m.nodes;
    std::sort(nodes.begin(), nodes.end());
    if (!IsInOrder(m) || !IntermediatesAreFree(m, nodes) || !ArgumentsAreApart(m)) return -1;
    for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) {
      if (CanMeetAt(nodes, *at)) return *at;
    }
    return -1;
  }

 private:
  int class_of(int v) const { return classes_[std::size_t(v)]; }

  // Statements that change the same memory follow one another as the nodes do.
  bool IsInOrder(const PatternMatch& m) const {
    for (std::size_t i = 0; i < m.nodes.size(); ++i) {
      for (std::size_t j = i + 1; j < m.nodes.size(); ++j) {
        const int a = m.nodes[i], b = m.nodes[j];
        if (a > b && MustKeepOrder(accesses_[std::size_t(b)], accesses_[std::size_t(a)])) {
          return false;
        }
      }
    }
    return true;
  }

  bool IntermediatesAreFree(const PatternMatch& m, const std::vector<int>& nodes) const {
    const std::vector<int>& returned = m.pattern->results;
    for (int k = 0; k < m.pattern->n_variables; ++k) {
      const int v = m.values[std::size_t(k)];
      const bool is_result = std::find(returned.begin(), returned.end(), k) != returned.end();
      if (v < 0) continue;
      const GraphValue& value = graph_.value(v);
      const bool is_made = value.kind == GraphValue::kResult &&
                           std::binary_search(nodes.begin(), nodes.end(), value.node);
      if (!is_made && !is_result) return false;  // written into memory that others see
      if (is_made && IsSymbol(v)) return false;
      if (is_result) continue;
      if (returned_.contains(class_of(v))) return false;
      for (int i = 0; i < int(accesses_.size()); ++i) {
        const bool is_inside = std::binary_search(nodes.begin(), nodes.end(), i);
        if (!is_inside && accesses_[std::size_t(i)].reads.contains(class_of(v))) return false;
        if (i != value.node && accesses_[std::size_t(i)].writes.contains(class_of(v))) return false;
      }
    }
    return true;
  }
  bool IsSymbol(int v) const {
    return std::any_of(graph_.symbols.begin(), graph_.symbols.end(),
                       [&](const GraphSymbol& s) { return s.value == v; });
  }

  // Results of the operator lie apart from each other and from its arguments, and memory that it
  // writes is given to it once.
  bool ArgumentsAreApart(const PatternMatch& m) const {
    std::set<int> made, given, written;
    for (const int v : m.values) {
      if (v >= 0 && !made.insert(class_of(v)).second) return false;
    }
    const std::vector<Param>& params = m.pattern->op->contract->forms[0].params;
    for (std::size_t i = 0; i < m.arguments.size(); ++i) {
      for (const int v : m.arguments[i].values) {
        const int c = class_of(v);
        if (made.contains(c) || written.contains(c)) return false;
        if (params[i].is_mut && given.contains(c)) return false;
        given.insert(c);
        if (params[i].is_mut) written.insert(c);
      }
    }
    return true;
  }

  bool CanMeetAt(const std::vector<int>& nodes, int at) const {
    for (const int member : nodes) {
      for (int j = std::min(member, at) + 1; j < std::max(member, at); ++j) {
        if (std::binary_search(nodes.begin(), nodes.end(), j)) continue;
        if (MustKeepOrder(accesses_[std::size_t(member)], accesses_[std::size_t(j)])) return false;
      }
    }
    return true;
  }

  const Graph& graph_;
  const std::vector<int> classes_;
  std::vector<Access> accesses_;
  std::set<int> returned_;  // classes
};

// A copy of the graph in which calls are tried.
class Trial {
 public:
  explicit Trial(const Graph& graph) : graph_(graph), copy_(graph) {
    copy_.CopyInputs();
    for (const GraphNode& node : graph.nodes) copy_.CopyNode(node);
    alive_ = copy_.builder.points().alive();
  }

  // Whether a call was wrong at sizes at which the graph is right: nothing more can be tried.
  bool is_spoiled() const { return copy_.builder.points().alive() != alive_; }

  // Whether a call of the match's operator is right wherever the graph is, and the same.
  bool Takes(const PatternMatch& m, const GraphNode& call) {
    GraphBuilder::CallOptions options;
    for (std::size_t r = 0; r < call.results.size(); ++r) {
      options.declined |= std::uint32_t(call.results[r] < 0) << r;
    }
    GraphNode mapped = call;
    mapped.arguments = copy_.Arguments(call);
    std::vector<int> made;
    try {
      made = copy_.builder.Call(*call.op, mapped.arguments, options);
    } catch (const Error&) {
      return false;
    }
    for (std::size_t r = 0; r < made.size(); ++r) {
      if (made[r] < 0) continue;
      const int as = copy_.Value(call.results[r]);
      const Graph& now = copy_.builder.graph();
      if (ShowType(now, made[r]) != ShowType(now, as)) return false;
    }
    for (std::size_t r = 0; r < call.results.size(); ++r) {
      mapped.results[r] = IsInto(call, int(r)) ? copy_.Value(call.results[r]) : -1;
    }
    return !is_spoiled() && Holds(m, mapped);
  }

 private:
  bool Holds(const PatternMatch& m, const GraphNode& call) {
    const Graph& now = copy_.builder.graph();
    // Numbers of the call are unknown here: what is computed of them cannot be compared.
    if (!m.computed.empty() && ScalarParams(now, call)) return false;
    GraphNode given;
    for (const PatternMatch::Computed& c : m.computed) given.arguments.push_back(c.given);
    given.arguments = copy_.Arguments(given);
    return copy_.builder.points().Holds(
        now, *call.op->contract, call, [&](const GraphPoints::Tried& t) {
          if (m.pattern->form >= 0 && t.form != m.pattern->form) return false;
          for (std::size_t k = 0; k < m.computed.size(); ++k) {
            if (!IsComputed(*call.op->contract, *m.computed[k].as, given.arguments[k], t)) {
              return false;
            }
          }
          return Dispatch({*call.op, t.form, t.bindings, t.frame, *CurrentPolicy(), CurrentScope()},
                          nullptr) >= 0;
        });
  }

  static bool IsComputed(const Contract& contract, const StatementArgument& as,
                         const GraphArgument& given, const GraphPoints::Tried& t) {
    if (as.kind == StatementArgument::kDTypeVar) {
      const int var = contract.forms[std::size_t(t.form)].dtype_var(as.text);
      return var >= 0 && t.bindings.dtype_bound >> var & 1 &&
             given == DTypeArgument(DType(t.bindings.dtype[var]));
    }
    const int node = as.expression.node[std::size_t(t.form)];
    if (node < 0) return false;
    const Number n = Evaluate(contract, t.form, node, t.bindings, t.frame);
    switch (given.kind) {
      case GraphArgument::kBool:
      case GraphArgument::kInt:
        return n.known && !n.is_float && n.i == given.i;
      case GraphArgument::kFloat:
        return n.known && (n.is_float ? n.f : double(n.i)) == given.f;
      case GraphArgument::kSize:
        return n.known && !n.is_float && n.i == given.size.At(t.source.symbols);
      default:
        return false;
    }
  }

  const Graph& graph_;
  GraphCopy copy_;
  int alive_;
};

class Fuser {
 public:
  explicit Fuser(Graph* graph) : graph_(*graph), patterns_(FindPatterns()) {}

  // Until nothing changes: a call that fusion made may be part of another composition.
  void Run() {
    // Without any match this is cheap, where a trial copies and infers the whole graph.
    if (!MayMatch()) return;
    RemoveDead(&graph_);  // a dead node would count as a use of an intermediate result
    while (FuseOnce()) has_changed_ = true;
    if (has_changed_) RemoveDead(&graph_);
  }

 private:
  bool MayMatch() const {
    for (const Pattern& p : patterns_) {
      for (int last = 0; last < int(graph_.nodes.size()); ++last) {
        if (MatchPattern(graph_, p, last, [](const PatternMatch&) { return true; })) return true;
      }
    }
    return false;
  }

  bool FuseOnce() {
    bool has_fused = false;
    trial_.reset();
    before_ = graph_;
    moves_ = std::make_unique<MoveCheck>(graph_);
    for (const Pattern& p : patterns_) {
      for (int last = 0; last < int(graph_.nodes.size()); ++last) {
        const bool is_fused =
            MatchPattern(graph_, p, last, [&](const PatternMatch& m) { return TryToFuse(m); });
        if (!is_fused) continue;
        has_fused = true;
        // As many nodes are gone at most; the next ones may complete another match.
        last = std::max(-1, last - int(p.statements.size()));
        moves_ = std::make_unique<MoveCheck>(graph_);
      }
    }
    return has_fused;
  }

  bool TryToFuse(const PatternMatch& m) {
    const int at = moves_->Place(m);
    if (at < 0) return false;
    GraphNode call{m.pattern->op, m.arguments, {}, 0, ""};
    const std::vector<Result>& results = call.op->contract->forms[0].results;
    for (std::size_t r = 0; r < m.pattern->results.size(); ++r) {
      const int variable = m.pattern->results[r];
      const int v = variable < 0 ? -1 : m.values[std::size_t(variable)];
      if (v < 0 && !results[r].is_optional) return false;
      call.results.push_back(v);
      call.into |= std::uint32_t(v >= 0 && IsWrittenInto(m, v)) << r;
    }
    if (!trial_) trial_.emplace(before_);
    const bool is_taken = trial_->Takes(m, call);
    if (trial_->is_spoiled()) trial_.reset();
    if (!is_taken) return false;
    Replace(m.nodes, at, std::move(call));
    return true;
  }

  bool IsWrittenInto(const PatternMatch& m, int value) const {
    return std::any_of(m.nodes.begin(), m.nodes.end(), [&](int n) {
      const GraphNode& node = graph_.nodes[std::size_t(n)];
      const auto r = std::find(node.results.begin(), node.results.end(), value);
      return r != node.results.end() && IsInto(node, int(r - node.results.begin()));
    });
  }

  void Replace(std::vector<int> nodes, int at, GraphNode call) {
    std::sort(nodes.begin(), nodes.end());
    for (const int n : nodes) {
      const std::string& place = graph_.nodes[std::size_t(n)].place;
      if (place.empty() || call.place.find(place) != call.place.npos) continue;
      call.place += (call.place.empty() ? "" : ", ") + place;
    }
    std::vector<GraphNode> kept;
    for (int i = 0; i < int(graph_.nodes.size()); ++i) {
      if (i == at) {
        kept.push_back(std::move(call));
      } else if (!std::binary_search(nodes.begin(), nodes.end(), i)) {
        kept.push_back(std::move(graph_.nodes[std::size_t(i)]));
      }
    }
    graph_.nodes = std::move(kept);
    for (GraphValue& v : graph_.values) v.node = -1;
    for (int i = 0; i < int(graph_.nodes.size()); ++i) {
      const GraphNode& node = graph_.nodes[std::size_t(i)];
      for (int r = 0; r < int(node.results.size()); ++r) {
        if (node.results[std::size_t(r)] < 0 || IsInto(node, r)) continue;
        GraphValue& v = graph_.value(node.results[std::size_t(r)]);
        v.node = i;
        v.result = r;
      }
    }
  }

  Graph& graph_;
  const std::vector<Pattern> patterns_;
  Graph before_;  // the graph before this round, in which every value still has its node
  std::optional<Trial> trial_;
  std::unique_ptr<MoveCheck> moves_;
  bool has_changed_ = false;
};

}  // namespace

void Fuse(Graph* graph) { Fuser(graph).Run(); }

}  // namespace anyop
