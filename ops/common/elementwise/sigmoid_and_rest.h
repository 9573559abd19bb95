// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "anyop/simd.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// s = sigma(g) and t = 1 - s, neither of which loses bits where the other is near 1.
template <class T, int N>
[[gnu::always_inline]] inline void SigmoidAndRest(const F32 (&g)[N], F32 (&s)[N], F32 (&t)[N]) {
  for (int k = 0; k < N; ++k) s[k] = Zero() - Abs(g[k]);
  ExpAll<T>(s);
  for (int k = 0; k < N; ++k) {
    const F32 large = Reciprocal(s[k] + Set(1.0f)), small = s[k] * large;
    const Mask is_negative = g[k] < Zero();
    s[k] = Select(is_negative, small, large);
    t[k] = Select(is_negative, large, small);
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
