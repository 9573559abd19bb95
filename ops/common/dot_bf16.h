// SPDX-License-Identifier: Apache-2.0
// The dot instruction of bf16.
#pragma once
#if defined(__AVX512BF16__)
#include "anyop/simd.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Lane i: sum[i] + a[2 i] b[2 i] + a[2 i + 1] b[2 i + 1], a and b of 32 bf16. Subnormals count as
// zero.
[[gnu::always_inline]] inline F32 AddDots(F32 sum, __m512i a, __m512i b) {
  sum.v = _mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  return sum;
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
#endif
