// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/check_composition.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "platform/error.h"
#include "runtime/run/follow_composition.h"

namespace anyop {
namespace {

// The parameter whose memory a name stands for, or -1: views of a parameter are its memory, too.
struct Memory {
  int parameter = -1;
};

class WritesOf : public CompositionFollower<Memory, const Operator> {
 public:
  WritesOf(const Operator& op, const Composition& composition, const FindOperator& find)
      : CompositionFollower(op, composition), find_(find) {}

  // The parameters that are written, by bit; all of them where an operator is not known.
  std::uint64_t Find() {
    Follow();
    return written_;
  }

 private:
  bool VisitView(const Statement& s) override {
    Assign(s.results[0], ValueOf(s.view.base));
    return true;
  }
  bool VisitUnknown(const Statement&) override {
    written_ = ~std::uint64_t{0};
    return true;
  }
  bool VisitMisplaced(const Statement&, const StatementArgument&) override { return true; }
  bool VisitCall(const Statement& s, const Operator& inner, std::vector<Given> call) override {
    for (int i = 0; i < inner.n_params; ++i) {
      const Given& at = call[std::size_t(i)];
      if (at.from) CheckArgument(s, *at.from, at.value.parameter, ParamOf(inner, i));
    }
    for (const StatementResult& r : s.results) Assign(r, {});
    return true;
  }

  void CheckArgument(const Statement& s, const StatementArgument& a, int p, const Param& taken) {
    CheckPlanned(s, a, p, taken);
    if (p < 0 || !taken.is_mut) return;
    written_ |= std::uint64_t{1} << p;
    if (ParamOf(op_, p).is_mut) return;
    const std::string name(ParamOf(op_, p).name);
    const std::string given = a.text == name ? name : a.text + ", which is memory of " + name + ",";
    Fail(ANYOP_INVALID_ARGUMENT,
         op_.name + ": .means gives " + given + " to " + s.op + ", which writes its " +
             std::string(taken.name) + ", but " + name +
             " is only read. Declare it mut, or give what a statement made.");
  }
  // On a device planned tensors are the host's, and all others are the device's, those that a
  // statement made included. On the host there is no difference, but a call must work on both.
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

  const Operator* Inner(const std::string& name) const override {
    return CalledBy(op_, name, find_);
  }
  Memory Parameter(int i) const override { return {i}; }
  Memory Computed(const StatementArgument&) const override { return {}; }
  Memory Literal(DType) const override { return {}; }
  Memory Literal(std::string_view) const override { return {}; }
  Memory Literal(const std::vector<std::int64_t>&) const override { return {}; }
  bool Default(const Operator&, int, Memory*) const override { return true; }
  bool IsNone(const Memory&) const override { return false; }

  const FindOperator& find_;
  std::uint64_t written_ = 0;
};

}  // namespace

// way: the operators that were followed. A circle that leaves `begin` out is found when an operator
// of the circle is checked.
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
