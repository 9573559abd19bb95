// SPDX-License-Identifier: Apache-2.0
// Which operands an operator of an expression takes, and the type of its value: a table of rules,
// each with the error of an expression that breaks it.
#pragma once
#include "anyop/signature.h"

namespace anyop::parse {

// Of an operator of one operand, b is as a.
struct Operands {
  Type a, b;
  bool a_is_list, b_is_list;
};

constexpr bool HaveNoList(const Operands& x) { return !x.a_is_list && !x.b_is_list; }
constexpr bool HaveOneListAtMost(const Operands& x) { return !x.a_is_list || !x.b_is_list; }
constexpr bool AreNumbers(const Operands& x) { return IsNumber(x.a) && IsNumber(x.b); }
constexpr bool AreNoFloats(const Operands& x) { return x.a != Type::kFloat && x.b != Type::kFloat; }
constexpr bool AreAlike(const Operands& x) { return AreNumbers(x) || x.a == x.b; }
constexpr bool AreConditions(const Operands& x) { return x.a == Type::kBool && x.b == Type::kBool; }
constexpr bool BeginWithDType(const Operands& x) { return x.a == Type::kDType; }

struct OperatorRule {
  NodeOp first, last;  // the operators that it is for, as NodeOp orders them
  bool (*holds)(const Operands&);
  const char* error;
};

inline constexpr char kMisplacedList[] =
    "a list stands for its elements only where it is compared with a number";
inline constexpr char kNoNumbers[] = "arithmetic needs numbers";
inline constexpr char kNoConditions[] = "and, or, not need conditions";

// The first rule that is broken tells its error, so the general ones come first.
inline constexpr OperatorRule kOperatorRules[] = {
    {NodeOp::kAdd, NodeOp::kMax, HaveNoList, kMisplacedList},
    {NodeOp::kAnd, NodeOp::kIn, HaveNoList, kMisplacedList},
    {NodeOp::kEq, NodeOp::kGe, HaveOneListAtMost, kMisplacedList},
    {NodeOp::kAdd, NodeOp::kMax, AreNumbers, kNoNumbers},
    {NodeOp::kNeg, NodeOp::kNeg, AreNumbers, kNoNumbers},
    {NodeOp::kMod, NodeOp::kCeilDiv, AreNoFloats, "% and ceil_div need integers"},
    {NodeOp::kEq, NodeOp::kGe, AreAlike, "these two cannot be compared"},
    {NodeOp::kLt, NodeOp::kGe, AreNumbers, "words and dtypes have no order: use == or !="},
    {NodeOp::kAnd, NodeOp::kOr, AreConditions, kNoConditions},
    {NodeOp::kNot, NodeOp::kNot, AreConditions, kNoConditions},
    {NodeOp::kIn, NodeOp::kIn, BeginWithDType,
     "in needs a dtype variable or a dtype parameter on its left"},
};

// Null if the operands are right.
constexpr const char* WrongOperands(NodeOp op, const Operands& operands) {
  for (const OperatorRule& rule : kOperatorRules) {
    if (op >= rule.first && op <= rule.last && !rule.holds(operands)) return rule.error;
  }
  return nullptr;
}

constexpr Type ValueType(NodeOp op, const Operands& operands) {
  if (!IsArithmetic(op) && op != NodeOp::kNeg) return Type::kBool;
  return AreNoFloats(operands) ? Type::kInt : Type::kFloat;
}

}  // namespace anyop::parse
