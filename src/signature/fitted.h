// SPDX-License-Identifier: Apache-2.0
// Values as the parameters that they are given to want them.
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

// A whole number where a float is meant.
[[gnu::always_inline]] inline anyop_value Fitted(ParamKind kind, anyop_value v) {
  return kind == ParamKind::kFloat && v.tag == ANYOP_INT ? FloatValue(double(v.i)) : v;
}
// Of an expression, which knows no truth values: those too.
inline anyop_value FittedExpression(ParamKind kind, anyop_value v) {
  if (kind == ParamKind::kBool && v.tag == ANYOP_INT) return WholeValue(ANYOP_BOOL, v.i);
  if (kind == ParamKind::kInt && v.tag == ANYOP_BOOL) return IntValue(v.i);
  return Fitted(kind, v);
}

}  // namespace anyop
