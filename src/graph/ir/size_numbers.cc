// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/size_numbers.h"

#include <algorithm>

#include "signature/comparison.h"
#include "signature/expression.h"

namespace anyop {

Number SizeNumbers::Compute(NodeOp op, const Number& a, const Number& b) {
  if (a.is_float || b.is_float) return Unsure();
  const Size x = ToSize(a), y = ToSize(b);
  switch (op) {
    case NodeOp::kNeg:
      return ToNumber(Size(0) - x);
    case NodeOp::kAdd:
      return ToNumber(x + y);
    case NodeOp::kSub:
      return ToNumber(x - y);
    case NodeOp::kMul:
      return ToNumber(x * y);
    case NodeOp::kDiv:
    case NodeOp::kMod:
    case NodeOp::kCeilDiv:
      return Divide(op, x, y);
    case NodeOp::kMin:
    case NodeOp::kMax:
      if (IsAtLeast(y - x, 0)) return ToNumber(op == NodeOp::kMin ? x : y);
      return IsAtLeast(x - y, 0) ? ToNumber(op == NodeOp::kMin ? y : x) : Unsure();
    default:
      return Compare(op, x, y);
  }
}

bool SizeNumbers::IsSame(const Number& a, const Number& b) { return ToSize(a) == ToSize(b); }

void SizeNumbers::AddSizeSymbol(int symbol) {
  is_size_symbol_.resize(std::max(is_size_symbol_.size(), std::size_t(symbol) + 1));
  is_size_symbol_[std::size_t(symbol)] = true;
}

std::int64_t SizeNumbers::Bits(const Size& size) {
  const Number n = ToNumber(size);
  return n.known ? n.i : BitsOfSymbol(n.symbol);  // symbol 0: unknown
}

Size SizeNumbers::ToSize(const Number& n) const {
  return n.symbol ? sizes_[n.symbol - 1] : Size(n.i);
}

// True only where it can be proven: a sum is at least its constant if no other product can be below
// 0. `n*n - n`, for instance, is never below 0, but has a negative factor.
bool SizeNumbers::IsAtLeast(const Size& size, std::int64_t least) const {
  std::int64_t constant = 0;
  for (const SizeTerm& t : size.terms()) {
    if (t.symbols.empty()) {
      constant = t.factor;
    } else if (t.factor < 0 || !std::all_of(t.symbols.begin(), t.symbols.end(), [&](int s) {
                 return std::size_t(s) < is_size_symbol_.size() && is_size_symbol_[std::size_t(s)];
               })) {
      return false;
    }
  }
  return constant >= least;
}

void SizeNumbers::Forget(std::size_t first) {
  sizes_.resize(first);
  is_sure_ = true;
}

Number SizeNumbers::ToNumber(const Size& size) {
  if (size.is_constant()) return size.constant() == INT64_MIN ? Unsure() : Int(size.constant());
  sizes_.push_back(size);
  Number n;
  n.symbol = std::uint32_t(sizes_.size());
  return n;
}

Number SizeNumbers::Unsure() {
  is_sure_ = false;
  return Unknown();
}

Number SizeNumbers::Compare(NodeOp op, const Size& x, const Size& y) {
  const Size rise = y - x;
  if (rise.is_constant()) return Int(Holds(op, std::int64_t(0), rise.constant()));
  const Size fall = x - y;
  // x < y at all sizes, or x > y, decides every comparison; x <= y or x >= y decides two of them.
  if (IsAtLeast(rise, 1)) return Int(Holds(op, 0, 1));
  if (IsAtLeast(fall, 1)) return Int(Holds(op, 1, 0));
  if (IsAtLeast(rise, 0) && (op == NodeOp::kLe || op == NodeOp::kGt)) return Int(op == NodeOp::kLe);
  if (IsAtLeast(fall, 0) && (op == NodeOp::kGe || op == NodeOp::kLt)) return Int(op == NodeOp::kGe);
  return Unsure();
}

Number SizeNumbers::Divide(NodeOp op, const Size& x, const Size& y) {
  Size quotient;
  if (y.is_constant()) {  // the remainder of the sum is that of its constant
    const auto constant = std::find_if(x.terms().begin(), x.terms().end(),
                                       [](const SizeTerm& t) { return t.symbols.empty(); });
    const std::int64_t c = constant == x.terms().end() ? 0 : constant->factor;
    if (c == INT64_MIN || !DivideExactly(x - Size(c), y, &quotient)) return Unsure();
    const Number rest = anyop::Compute(nullptr, op, Int(c), Int(y.constant()));
    return op == NodeOp::kMod ? rest : ToNumber(quotient + Size(rest.i));
  }
  if (!DivideExactly(x, y, &quotient)) return Unsure();
  if (!IsAtLeast(y, 1)) is_sure_ = false;  // it divides by zero at some size
  return op == NodeOp::kMod ? Int(0) : ToNumber(quotient);
}

}  // namespace anyop
