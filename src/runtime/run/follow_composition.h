// SPDX-License-Identifier: Apache-2.0
// Follows the statements of a composition: the one place that finds operators, places arguments and
// leaves statements out. What a name stands for is up to the class that follows: a value in a call,
// an array in a test, a value of a graph, a variable of a pattern.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/error.h"
#include "runtime/registry/composition.h"
#include "runtime/registry/operator.h"
#include "runtime/registry/registry.h"
#include "runtime/run/call.h"

namespace anyop {

// The operator that a statement of `op` calls: one of its own library, else one of anyop's; null
// where there is none. find: an operator by its full name, or null.
template <class FindByName>
auto CalledBy(const Operator& op, const std::string& name, const FindByName& find) {
  if (name.find('.') != name.npos) return find(name);
  const auto own = find(op.library + "." + name);
  return own ? own : find("anyop." + name);
}

// The same, loaded where it is not there yet. Throws NotAvailable.
inline Operator* LoadedFor(const Operator& op, const std::string& name) {
  Operator* found = CalledBy(op, name, FindRegistered);
  return found ? found : Find(name);
}

// The parameter of `inner` that argument k of a statement is for; -1: none.
inline int PlaceOf(const Operator& inner, const Statement& s, std::size_t k) {
  if (!s.arguments[k].keyword.empty()) return inner.contract->param(s.arguments[k].keyword);
  return int(k) < inner.n_params ? int(k) : -1;
}

// Value: what a name stands for. Called: Operator, or const Operator.
template <class Value, class Called = Operator>
class CompositionFollower {
 public:
  CompositionFollower(const Operator& op, const Composition& composition)
      : op_(op),
        composition_(composition),
        results_(std::size_t(op.n_results)),
        locals_(composition.locals.size()) {}
  virtual ~CompositionFollower() = default;

  // One statement after the other; false as soon as one of the functions below says so.
  bool Follow() {
    for (const Statement& s : composition_.statements) {
      if (!FollowStatement(s)) return false;
    }
    return true;
  }

 protected:
  // For a parameter of a call: its value, and where the statement gives it.
  struct Given {
    Value value{};
    const StatementArgument* from = nullptr;  // null: the default
  };

  // Follows one statement. A call is left out, without an error, if what it gives to a parameter
  // that is not optional is None: so .means says what is done for an optional argument.
  virtual bool FollowStatement(const Statement& s) {
    if (s.view.kind != StatementView::kNone) return VisitView(s);
    Called* inner = Inner(s.op);
    if (!inner) return VisitUnknown(s);
    std::vector<Given> call(std::size_t(inner->n_params));
    for (std::size_t k = 0; k < s.arguments.size(); ++k) {
      const int i = PlaceOf(*inner, s, k);
      if (i < 0) {
        if (!VisitMisplaced(s, s.arguments[k])) return false;
        continue;
      }
      Value v = ValueOf(s.arguments[k]);
      if (IsNone(v) && !ParamOf(*inner, i).is_optional) return true;
      call[std::size_t(i)] = {Fitted(*inner, i, std::move(v)), &s.arguments[k]};
    }
    for (int i = 0; i < inner->n_params; ++i) {
      Given& at = call[std::size_t(i)];
      if (!at.from && !Default(*inner, i, &at.value)) return false;
    }
    return VisitCall(s, *inner, std::move(call));
  }

  virtual bool VisitCall(const Statement& s, Called& inner, std::vector<Given> call) = 0;
  virtual bool VisitView(const Statement&) { return false; }
  virtual bool VisitUnknown(const Statement&) { return false; }  // operators that are not there
  virtual bool VisitMisplaced(const Statement& s, const StatementArgument& a) {
    Fail(ANYOP_INTERNAL,
         op_.Message(".means calls " + s.op + " with no parameter " + a.text + "."));
  }
  virtual Called* Inner(const std::string& name) const { return LoadedFor(op_, name); }

  virtual Value Parameter(int i) const = 0;
  virtual Value Local(int i) const { return locals_[std::size_t(i)]; }
  virtual Value Computed(const StatementArgument& expression_or_dtype_variable) const = 0;
  virtual Value Literal(DType) const = 0;
  virtual Value Literal(std::string_view word) const = 0;
  virtual Value Literal(const std::vector<std::int64_t>& list) const = 0;
  virtual bool Default(const Operator& inner, int i, Value* v) const = 0;
  virtual bool IsNone(const Value& v) const = 0;
  // The value as parameter i of the operator takes it: an integer as a float, for instance.
  virtual Value Fitted(const Operator&, int, Value v) const { return v; }

  Value ValueOf(const StatementArgument& a) const {
    switch (a.kind) {
      case StatementArgument::kNone:
        break;
      case StatementArgument::kParameter:
        return Parameter(a.index);
      case StatementArgument::kResult:
        return results_[std::size_t(a.index)];
      case StatementArgument::kLocal:
        return Local(a.index);
      case StatementArgument::kExpression:
      case StatementArgument::kDTypeVar:
        return Computed(a);
      case StatementArgument::kDType:
        return Literal(DType(a.index));
      case StatementArgument::kWord:
        return Literal(std::string_view(a.text).substr(1, a.text.size() - 2));  // its quotes
      case StatementArgument::kList:
        return Literal(a.list);
    }
    return {};
  }

  void Assign(const StatementResult& to, Value v) {
    (to.is_result ? results_ : locals_)[std::size_t(to.index)] = std::move(v);
  }

  static const Param& ParamOf(const Operator& op, int i) {
    return op.contract->forms[0].params[std::size_t(i)];
  }

  const Operator& op_;
  const Composition& composition_;
  std::vector<Value> results_, locals_;
};

}  // namespace anyop
