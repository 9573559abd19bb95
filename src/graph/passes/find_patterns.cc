// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "graph/ir/argument.h"
#include "graph/passes/pattern.h"
#include "runtime/call.h"
#include "runtime/registry.h"
#include "signature/defaults.h"

namespace anyop {
namespace {

constexpr int kMaxDroppable = 4;  // optional parameters whose absence leaves statements out

// An operator of the same library, else one of anyop's; null if it is not there.
Operator* Inner(const Operator& op, const std::string& name) {
  if (name.find('.') != name.npos) return FindRegistered(name);
  Operator* own = FindRegistered(op.library + "." + name);
  return own ? own : FindRegistered("anyop." + name);
}

// As the builder completes a call.
GraphArgument Completed(const Param& p, GraphArgument a) {
  if (p.kind == ParamKind::kFloat && a.kind == GraphArgument::kInt)
    return FloatArgument(double(a.i));
  if (p.kind == ParamKind::kTensors && a.kind == GraphArgument::kNone && !p.is_optional) {
    return ValuesArgument({});
  }
  return a;
}

class PatternMaker {
 public:
  PatternMaker(Operator& op, const Composition& composition) : op_(op), composition_(composition) {}

  // Optional parameters that some statement cannot do without.
  std::vector<int> Droppable() const {
    std::vector<int> params;
    for (const Statement& s : composition_.statements) {
      const Operator* inner = Inner(op_, s.op);
      for (std::size_t k = 0; inner && k < s.arguments.size(); ++k) {
        const int i = Place(*inner, s.arguments[k], int(k)), p = s.arguments[k].index;
        if (s.arguments[k].kind != StatementArgument::kParameter || i < 0) continue;
        const bool is_needed = !ParamOf(*inner, i).is_optional;
        const bool is_new = std::find(params.begin(), params.end(), p) == params.end();
        if (is_needed && is_new && ParamOf(op_, p).is_optional) params.push_back(p);
      }
    }
    return params;
  }

  // Nothing where these absent parameters leave no pattern.
  std::optional<Pattern> Make(std::uint64_t absent) {
    pattern_ = {&op_, -1, absent, {}, std::vector<int>(std::size_t(op_.n_results), -1), 0};
    locals_.assign(composition_.locals.size(), -1);
    for (const Statement& s : composition_.statements) {
      if (!AddStatement(s)) return std::nullopt;
    }
    const std::vector<Result>& results = op_.contract->forms[0].results;
    for (std::size_t r = 0; r < results.size(); ++r) {
      if (pattern_.results[r] < 0 && !results[r].is_optional) return std::nullopt;
    }
    if (pattern_.statements.size() < 2) return std::nullopt;
    return pattern_;
  }

 private:
  static const Param& ParamOf(const Operator& op, int i) {
    return op.contract->forms[0].params[std::size_t(i)];
  }
  static int Place(const Operator& inner, const StatementArgument& a, int k) {
    if (!a.keyword.empty()) return inner.contract->param(a.keyword);
    return k < inner.n_params ? k : -1;
  }

  bool AddStatement(const Statement& s) {
    if (s.view.kind != StatementView::kNone) return false;
    Operator* inner = Inner(op_, s.op);
    if (!inner) return false;
    PatternStatement made{inner, {}, {}};
    made.arguments.resize(std::size_t(inner->n_params));
    std::vector<bool> given(made.arguments.size());
    bool is_left_out = false;
    for (std::size_t k = 0; k < s.arguments.size(); ++k) {
      const int i = Place(*inner, s.arguments[k], int(k));
      if (i < 0) return false;
      PatternArgument a = ArgumentOf(s.arguments[k]);
      const Param& p = ParamOf(*inner, i);
      const bool is_none =
          a.kind == PatternArgument::kLiteral && a.literal.kind == GraphArgument::kNone;
      is_left_out |= is_none && !p.is_optional;
      // What a composition changes is its own parameters.
      if (p.is_mut && !is_none &&
          (a.kind != PatternArgument::kParameter || !ParamOf(op_, a.index).is_mut)) {
        return false;
      }
      a.literal = Completed(p, std::move(a.literal));
      made.arguments[std::size_t(i)] = std::move(a);
      given[std::size_t(i)] = true;
    }
    if (is_left_out) return true;
    for (int i = 0; i < inner->n_params; ++i) {
      if (given[std::size_t(i)]) continue;
      anyop_value v{};
      if (!DefaultValue(*inner->contract, i, &v)) return false;
      made.arguments[std::size_t(i)].literal = Completed(ParamOf(*inner, i), LiteralArgument(v));
    }
    for (int r = 0; r < inner->n_results; ++r) {
      const int variable = pattern_.n_variables++;
      made.results.push_back(variable);
      if (std::size_t(r) >= s.results.size()) continue;
      const StatementResult& to = s.results[std::size_t(r)];
      (to.is_result ? pattern_.results : locals_)[std::size_t(to.index)] = variable;
    }
    pattern_.statements.push_back(std::move(made));
    return true;
  }

  PatternArgument ArgumentOf(const StatementArgument& a) const {
    PatternArgument made;
    const auto variable = [&](int v) {
      if (v < 0) return;  // of a statement that is left out: None
      made.kind = PatternArgument::kVariable;
      made.index = v;
    };
    switch (a.kind) {
      case StatementArgument::kNone:
        break;
      case StatementArgument::kParameter:
        if (pattern_.absent >> a.index & 1) break;
        made.kind = PatternArgument::kParameter;
        made.index = a.index;
        break;
      case StatementArgument::kResult:
        variable(pattern_.results[std::size_t(a.index)]);
        break;
      case StatementArgument::kLocal:
        variable(locals_[std::size_t(a.index)]);
        break;
      case StatementArgument::kExpression:
      case StatementArgument::kDTypeVar:
        made.kind = PatternArgument::kComputed;
        made.computed = &a;
        break;
      case StatementArgument::kDType:
        made.literal = DTypeArgument(DType(a.index));
        break;
      case StatementArgument::kWord:
        made.literal = WordArgument(std::string_view(a.text).substr(1, a.text.size() - 2));
        break;
      case StatementArgument::kList:
        made.literal = IntsArgument(a.list);
        break;
    }
    return made;
  }

  Operator& op_;
  const Composition& composition_;
  Pattern pattern_;
  std::vector<int> locals_;
};

void AddPatterns(Operator& op, std::size_t number, std::vector<Pattern>* patterns) {
  PatternMaker maker(op, op.compositions[number]);
  const std::vector<int> droppable = maker.Droppable();
  if (int(droppable.size()) > kMaxDroppable) return;
  for (unsigned subset = 0; subset < 1u << droppable.size(); ++subset) {
    std::uint64_t absent = 0;
    for (std::size_t k = 0; k < droppable.size(); ++k) {
      if (subset >> k & 1) absent |= 1ull << droppable[k];
    }
    std::optional<Pattern> made = maker.Make(absent);
    if (!made) continue;
    if (op.compositions.size() > 1) made->form = int(number);
    patterns->push_back(std::move(*made));
  }
}

}  // namespace

std::vector<Pattern> FindPatterns() {
  std::vector<Pattern> patterns;
  for (Operator* op : Operators()) {
    if (op->kernels.empty()) continue;
    for (std::size_t k = 0; k < op->compositions.size(); ++k) AddPatterns(*op, k, &patterns);
  }
  std::stable_sort(patterns.begin(), patterns.end(), [](const Pattern& a, const Pattern& b) {
    return a.statements.size() > b.statements.size();
  });
  return patterns;
}

}  // namespace anyop
