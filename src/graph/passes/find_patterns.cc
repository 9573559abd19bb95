// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "graph/ir/argument.h"
#include "graph/passes/pattern.h"
#include "runtime/run/call.h"
#include "runtime/run/follow_composition.h"
#include "signature/defaults.h"

namespace anyop {
namespace {

// Optional parameters whose absence leaves statements out. Each doubles the number of patterns.
constexpr int kMaxDroppable = 4;

// As the builder completes a call: arguments of nodes are compared with these.
GraphArgument Completed(const Param& p, GraphArgument a) {
  if (p.kind == ParamKind::kFloat && a.kind == GraphArgument::kInt)
    return FloatArgument(double(a.i));
  if (p.kind == ParamKind::kTensors && a.kind == GraphArgument::kNone && !p.is_optional) {
    return ValuesArgument({});
  }
  return a;
}

// Follows a composition with these parameters absent: their names stand for None, and statements
// that cannot do without one are left out.
class PatternMaker : public CompositionFollower<PatternArgument> {
 public:
  PatternMaker(Operator& op, const Composition& composition, std::uint64_t absent)
      : CompositionFollower(op, composition) {
    pattern_ = {&op, -1, absent, {}, std::vector<int>(std::size_t(op.n_results), -1), 0};
  }

  // Nothing where these absent parameters leave no pattern.
  std::optional<Pattern> Make() {
    if (!Follow()) return std::nullopt;
    const std::vector<Result>& results = op_.contract->forms[0].results;
    for (std::size_t r = 0; r < results.size(); ++r) {
      pattern_.results[r] = results_[r].index;
      if (pattern_.results[r] < 0 && !results[r].is_optional) return std::nullopt;
    }
    if (pattern_.statements.size() < 2) return std::nullopt;
    return pattern_;
  }

 private:
  Operator* Inner(const std::string& name) const override {
    return CalledBy(op_, name, FindRegistered);
  }
  bool VisitMisplaced(const Statement&, const StatementArgument&) override { return false; }

  bool VisitCall(const Statement& s, Operator& inner, std::vector<Given> call) override {
    PatternStatement made{&inner, {}, {}};
    for (int i = 0; i < inner.n_params; ++i) {
      PatternArgument& a = call[std::size_t(i)].value;
      // A composition may change nothing but its own `mut` parameters: a node that changes other
      // memory is no part of one.
      if (ParamOf(inner, i).is_mut && call[std::size_t(i)].from && !IsNone(a) &&
          (a.kind != PatternArgument::kParameter || !ParamOf(op_, a.index).is_mut)) {
        return false;
      }
      made.arguments.push_back(std::move(a));
    }
    for (int r = 0; r < inner.n_results; ++r) {
      PatternArgument variable{PatternArgument::kVariable, pattern_.n_variables++, {}, nullptr};
      made.results.push_back(variable.index);
      if (std::size_t(r) < s.results.size()) Assign(s.results[std::size_t(r)], variable);
    }
    pattern_.statements.push_back(std::move(made));
    return true;
  }

  static PatternArgument Known(GraphArgument literal) {
    return {PatternArgument::kLiteral, -1, std::move(literal), nullptr};
  }
  PatternArgument Parameter(int i) const override {
    if (pattern_.absent >> i & 1) return {};
    return {PatternArgument::kParameter, i, {}, nullptr};
  }
  PatternArgument Computed(const StatementArgument& a) const override {
    return {PatternArgument::kComputed, -1, {}, &a};
  }
  PatternArgument Literal(DType dtype) const override { return Known(DTypeArgument(dtype)); }
  PatternArgument Literal(std::string_view word) const override {
    return Known(WordArgument(word));
  }
  PatternArgument Literal(const std::vector<std::int64_t>& list) const override {
    return Known(IntsArgument(list));
  }
  bool Default(const Operator& inner, int i, PatternArgument* a) const override {
    anyop_value v{};
    if (!DefaultValue(*inner.contract, i, &v)) return false;
    *a = Fitted(inner, i, Known(LiteralArgument(v)));
    return true;
  }
  bool IsNone(const PatternArgument& a) const override {
    return a.kind == PatternArgument::kLiteral && a.literal.kind == GraphArgument::kNone;
  }
  PatternArgument Fitted(const Operator& inner, int i, PatternArgument a) const override {
    a.literal = Completed(ParamOf(inner, i), std::move(a.literal));
    return a;
  }

  Pattern pattern_;
};

// Optional parameters that some statement cannot do without.
std::vector<int> Droppable(const Operator& op, const Composition& composition) {
  std::vector<int> params;
  const auto param_of = [](const Operator& o, int i) -> const Param& {
    return o.contract->forms[0].params[std::size_t(i)];
  };
  for (const Statement& s : composition.statements) {
    const Operator* inner = CalledBy(op, s.op, FindRegistered);
    for (std::size_t k = 0; inner && k < s.arguments.size(); ++k) {
      const int i = PlaceOf(*inner, s, k), p = s.arguments[k].index;
      if (s.arguments[k].kind != StatementArgument::kParameter || i < 0) continue;
      const bool is_needed = !param_of(*inner, i).is_optional;
      const bool is_new = std::find(params.begin(), params.end(), p) == params.end();
      if (is_needed && is_new && param_of(op, p).is_optional) params.push_back(p);
    }
  }
  return params;
}

void AddPatterns(Operator& op, std::size_t number, std::vector<Pattern>* patterns) {
  const Composition& composition = op.compositions[number];
  const std::vector<int> droppable = Droppable(op, composition);
  if (int(droppable.size()) > kMaxDroppable) return;
  for (unsigned subset = 0; subset < 1u << droppable.size(); ++subset) {
    std::uint64_t absent = 0;
    for (std::size_t k = 0; k < droppable.size(); ++k) {
      if (subset >> k & 1) absent |= 1ull << droppable[k];
    }
    std::optional<Pattern> made = PatternMaker(op, composition, absent).Make();
    if (!made) continue;
    if (op.compositions.size() > 1) made->form = int(number);
    patterns->push_back(std::move(*made));
  }
}

}  // namespace

std::vector<Pattern> FindPatterns() {
  std::vector<Pattern> patterns;
  for (Operator* op : Operators()) {
    if (!HasHostKernel(*op)) continue;  // the host could not run the call that fusion makes
    for (std::size_t k = 0; k < op->compositions.size(); ++k) AddPatterns(*op, k, &patterns);
  }
  // The longest first: fusing a part of it first would take its nodes away.
  std::stable_sort(patterns.begin(), patterns.end(), [](const Pattern& a, const Pattern& b) {
    return a.statements.size() > b.statements.size();
  });
  return patterns;
}

}  // namespace anyop
