// SPDX-License-Identifier: Apache-2.0
// Expressions turned around: one side of an operation, where its value and the other side are
// known.
#pragma once
#include "signature/expression.h"

namespace anyop {

// The side s of `whole = s op other`; of `whole = other op s` where it is the right one. Of a
// product: the quotient, rounded down. Unknown where the operation cannot be turned around.
inline Number TurnedAround(Symbols* symbols, NodeOp op, bool is_left, const Number& whole,
                           const Number& other) {
  switch (op) {
    case NodeOp::kAdd:
      return Compute(symbols, NodeOp::kSub, whole, other);
    case NodeOp::kSub:
      return is_left ? Compute(symbols, NodeOp::kAdd, whole, other)
                     : Compute(symbols, NodeOp::kSub, other, whole);
    case NodeOp::kMul:
      return Compute(symbols, NodeOp::kDiv, whole, other);
    case NodeOp::kDiv:
    case NodeOp::kCeilDiv:
      return is_left ? Compute(symbols, NodeOp::kMul, whole, other) : Unknown();
    default:
      return Unknown();
  }
}

}  // namespace anyop
