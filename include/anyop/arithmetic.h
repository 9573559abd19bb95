// SPDX-License-Identifier: Apache-2.0
// Arithmetic of the language of signatures on whole numbers: the one statement of how a quotient is
// rounded and of what overflows, for the parser, which is constexpr, and for calls.
#pragma once
#include <cstdint>

#include "anyop/signature.h"

namespace anyop {

enum class Fault : std::uint8_t { kNone, kDivisionByZero, kOverflow };

struct WholeNumber {
  std::int64_t value = 0;
  Fault fault = Fault::kNone;
};

// Rounds down, as Python does, so that % is never negative for a positive divisor.
constexpr std::int64_t FloorDiv(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

// The value of `a op b`, of an operator of arithmetic. INT64_MIN is refused as an overflow, so that
// no negation and no division of a result can overflow.
constexpr WholeNumber Compute(NodeOp op, std::int64_t a, std::int64_t b) {
  WholeNumber result;
  bool overflows = false;
  switch (op) {
    case NodeOp::kAdd:
      overflows = __builtin_add_overflow(a, b, &result.value);
      break;
    case NodeOp::kSub:
      overflows = __builtin_sub_overflow(a, b, &result.value);
      break;
    case NodeOp::kMul:
      overflows = __builtin_mul_overflow(a, b, &result.value);
      break;
    case NodeOp::kMin:
      return {a < b ? a : b};
    case NodeOp::kMax:
      return {a > b ? a : b};
    default:
      if (b == 0) return {0, Fault::kDivisionByZero};
      return {op == NodeOp::kMod       ? a - FloorDiv(a, b) * b
              : op == NodeOp::kCeilDiv ? -FloorDiv(-a, b)
                                       : FloorDiv(a, b)};
  }
  if (overflows || result.value == INT64_MIN) return {0, Fault::kOverflow};
  return result;
}

}  // namespace anyop
