// SPDX-License-Identifier: Apache-2.0
// Values converted to the kinds that their parameters want.
#pragma once
#include "anyop/signature.h"
#include "anyop/value.h"

namespace anyop {

// The tag of a value that is given to a parameter of this kind.
constexpr std::uint16_t TagOf(ParamKind kind) {
  constexpr std::uint16_t kTags[] = {ANYOP_TENSOR, ANYOP_TENSORS, ANYOP_INT,
                                     ANYOP_FLOAT,  ANYOP_BOOL,    ANYOP_WORD,
                                     ANYOP_DTYPE,  ANYOP_INTS,    ANYOP_FLOATS};
  return kTags[int(kind)];
}

// Makes a float of a whole number that is given to a float parameter.
[[gnu::always_inline]] inline anyop_value Fitted(ParamKind kind, anyop_value v) {
  return kind == ParamKind::kFloat && v.tag == ANYOP_INT ? FloatValue(double(v.i)) : v;
}
// The same for the value of an expression, where a truth value is the number 0 or 1.
inline anyop_value FittedExpression(ParamKind kind, anyop_value v) {
  if (kind == ParamKind::kBool && v.tag == ANYOP_INT) return WholeValue(ANYOP_BOOL, v.i);
  if (kind == ParamKind::kInt && v.tag == ANYOP_BOOL) return IntValue(v.i);
  return Fitted(kind, v);
}

}  // namespace anyop
