// SPDX-License-Identifier: Apache-2.0
#include "runtime/check_composition.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "platform/error.h"

namespace anyop {
namespace {

class WritesOf {
 public:
  WritesOf(const Operator& op, const Composition& composition, const FindOperator& find)
      : op_(op), composition_(composition), find_(find), memory_(composition.locals.size(), -1) {}

  // The parameters that are written, by bit; all of them where an operator is not known.
  std::uint64_t Find() {
    for (const Statement& s : composition_.statements) {
      if (s.view.kind != StatementView::kNone) {
        memory_[std::size_t(s.results[0].index)] = ParameterOf(s.view.base);
      } else if (const Operator* inner = CalledBy(op_, s.op, find_)) {
        AddCall(s, *inner);
      } else {
        written_ = ~std::uint64_t{0};
      }
    }
    return written_;
  }

 private:
  // Whose memory it is; -1 of what the composition made.
  int ParameterOf(const StatementArgument& a) const {
    if (a.kind == StatementArgument::kParameter) return a.index;
    return a.kind == StatementArgument::kLocal ? memory_[std::size_t(a.index)] : -1;
  }

  void AddCall(const Statement& s, const Operator& inner) {
    for (std::size_t k = 0; k < s.arguments.size(); ++k) {
      const StatementArgument& a = s.arguments[k];
      const int i = a.keyword.empty() ? int(k) : inner.contract->param(a.keyword);
      const int p = ParameterOf(a);
      if (i < 0 || i >= inner.n_params) continue;
      CheckPlanned(s, a, p, ParamOf(inner, i));
      if (p < 0) continue;
      if (!ParamOf(inner, i).is_mut) continue;
      written_ |= std::uint64_t{1} << p;
      if (ParamOf(op_, p).is_mut) continue;
      const std::string name(ParamOf(op_, p).name);
      const std::string given =
          a.text == name ? name : a.text + ", which is memory of " + name + ",";
      Fail(ANYOP_INVALID_ARGUMENT,
           op_.name + ": .means gives " + given + " to " + s.op + ", which writes its " +
               std::string(ParamOf(inner, i).name) + ", but " + name +
               " is only read. Declare it mut, or give what a statement made.");
    }
  }
  // On a device planned tensors are the host's, and all others are not: what a statement made is
  // none of them.
  void CheckPlanned(const Statement& s, const StatementArgument& a, int p,
                    const Param& taken) const {
    const bool is_made =
        p < 0 && (a.kind == StatementArgument::kLocal || a.kind == StatementArgument::kResult);
    if (!IsTensor(taken.kind) || (p < 0 && !is_made)) return;
    const bool is_planned = p >= 0 && ParamOf(op_, p).is_planned;
    if (is_planned == taken.is_planned) return;
    Fail(ANYOP_INVALID_ARGUMENT,
         op_.name + ": .means gives " + a.text + " to " + s.op + ", whose " +
             std::string(taken.name) +
             (is_planned ? " is not planned, but " : " is planned, but ") +
             (is_made      ? a.text + " is what a statement made, on the device of the call. "
              : is_planned ? std::string(ParamOf(op_, p).name) + " is. "
                           : std::string(ParamOf(op_, p).name) + " is not. ") +
             "Give planned tensors to planned parameters, and no others.");
  }
  static const Param& ParamOf(const Operator& op, int i) {
    return op.contract->forms[0].params[std::size_t(i)];
  }

  const Operator& op_;
  const Composition& composition_;
  const FindOperator& find_;
  std::vector<int> memory_;  // of each intermediate: a parameter, or -1
  std::uint64_t written_ = 0;
};

}  // namespace

const Operator* CalledBy(const Operator& op, const std::string& name, const FindOperator& find) {
  if (name.find('.') != name.npos) return find(name);
  const Operator* own = find(op.library + "." + name);
  return own ? own : find("anyop." + name);
}

static void FindCircle(const Operator& begin, const Operator& at, const FindOperator& find,
                       std::vector<const Operator*>& way) {
  if (std::find(way.begin(), way.end(), &at) != way.end()) return;
  way.push_back(&at);
  for (const Composition& c : at.compositions) {
    for (const Statement& s : c.statements) {
      const Operator* next =
          s.view.kind == StatementView::kNone ? CalledBy(at, s.op, find) : nullptr;
      if (next == &begin) {
        Fail(ANYOP_INVALID_ARGUMENT,
             begin.name + ": .means comes back to " + begin.name + ", by " + at.name +
                 ", but must end with operators that have kernels. Write one of them without the "
                 "other.");
      }
      if (next) FindCircle(begin, *next, find, way);
    }
  }
}

void CheckCircles(const Operator& op, const FindOperator& find) {
  std::vector<const Operator*> way;
  FindCircle(op, op, find, way);
}

void CheckWrites(const Operator& op, const FindOperator& find) {
  if (op.compositions.empty()) return;
  std::uint64_t written = 0;
  for (const Composition& c : op.compositions) written |= WritesOf(op, c, find).Find();
  for (int i = 0; i < op.n_params; ++i) {
    const Param& p = op.contract->forms[0].params[std::size_t(i)];
    if (!p.is_mut || written >> i & 1) continue;
    Fail(ANYOP_INVALID_ARGUMENT, op.name + ": " + std::string(p.name) +
                                     " is mut, but no statement of .means writes it. Drop mut, or "
                                     "give it to a parameter that is mut.");
  }
}

}  // namespace anyop
