// SPDX-License-Identifier: Apache-2.0
// Numbers that are no int64. The evaluator itself computes with whole numbers and floats, and has
// an unknown for a number that nobody knows. Any other size (a polynomial over the sizes of a
// graph, an integer of a compiler) is a symbol, with which only its owner computes.
#pragma once
#include <string>
#include <vector>

#include "anyop/arithmetic.h"
#include "anyop/signature.h"

namespace anyop {

// Neither known nor a symbol: unknown. A truth value is 0 or 1.
struct Number {
  bool known = false, is_float = false;
  Fault fault = Fault::kNone;
  std::uint32_t symbol = 0;  // the owner's number for it, from 1
  std::int64_t i = 0;
  double f = 0;  // of an integer: the same value

  bool is_unknown() const { return !known && symbol == 0; }
};

inline Number Int(std::int64_t v) { return {true, false, Fault::kNone, 0, v, double(v)}; }
inline Number Float(double v) { return {true, true, Fault::kNone, 0, 0, v}; }
inline Number Unknown(Fault fault = Fault::kNone) { return {false, false, fault, 0, 0, 0}; }

// In a call with symbols, 64 bits of this range are one, wherever the call has a number: a size, an
// integer or its list's element, the bits of a float (a NaN that nothing computes). They are below
// 0 as an integer. Symbol 0 stands for an unknown number.
inline constexpr std::uint64_t kSymbolBits = 0xFFFDA17Eull << 32;
inline std::int64_t BitsOfSymbol(std::uint32_t symbol) {
  return std::int64_t(kSymbolBits | symbol);
}
inline bool IsSymbol(std::int64_t bits) { return std::uint64_t(bits) >> 32 == kSymbolBits >> 32; }
inline std::uint32_t SymbolOf(std::int64_t bits) { return std::uint32_t(bits); }

// A condition of a right call that holds for some sizes of the symbols, and not for others.
struct Requirement {
  Number holds;  // a symbol
  std::string text;
};

class Symbols {
 public:
  virtual ~Symbols() = default;
  // The value of an operator of which one operand at least is a symbol and none is unknown; of one
  // operand (kNeg, kNot): `a`. A comparison of symbols may be known, a symbol, or unknown.
  virtual Number Compute(NodeOp op, const Number& a, const Number& b) = 0;
  // Whether two sizes are equal without any requirement.
  virtual bool IsSame(const Number& a, const Number& b) = 0;

  std::vector<Requirement> requirements;  // of the call that was checked last
};

}  // namespace anyop
