// SPDX-License-Identifier: Apache-2.0
// The meaning of the comparison operators of the language.
#pragma once
#include "anyop/signature.h"

namespace anyop {

// A comparison of two numbers; with a NaN only != holds.
template <class T>
bool Holds(NodeOp op, T x, T y) {
  switch (op) {
    case NodeOp::kEq:
      return x == y;
    case NodeOp::kNe:
      return x != y;
    case NodeOp::kLt:
      return x < y;
    case NodeOp::kLe:
      return x <= y;
    case NodeOp::kGt:
      return x > y;
    default:
      return x >= y;
  }
}

// The operator with its sides exchanged: a < b is b > a.
inline NodeOp Mirrored(NodeOp op) {
  switch (op) {
    case NodeOp::kLt:
      return NodeOp::kGt;
    case NodeOp::kLe:
      return NodeOp::kGe;
    case NodeOp::kGt:
      return NodeOp::kLt;
    case NodeOp::kGe:
      return NodeOp::kLe;
    default:
      return op;
  }
}

}  // namespace anyop
