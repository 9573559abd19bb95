// SPDX-License-Identifier: Apache-2.0
// Two vectors stored side by side: rounding to bf16 is cheaper by twos.
#pragma once
#include "anyop/simd.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

template <class T>
[[gnu::always_inline]] inline void StorePair(T* p, F32 low, F32 high) {
  Store(p, low);
  Store(p + kLanes, high);
}

#if defined(__AVX512BF16__)
[[gnu::always_inline]] inline void StorePair(BF16* p, F32 low, F32 high) {
  // The instruction for pairs takes subnormal numbers for zero.
  if (lanes::AnySubnormal(low.v, high.v)) [[unlikely]] {
    Store(p, low);
    Store(p + kLanes, high);
    return;
  }
  _mm512_storeu_si512(p, lanes::ToBF16Pair(low.v, high.v));
}
#elif defined(__AVX512BW__)
// Rounded to bf16 in the upper half of every lane.
[[gnu::always_inline]] inline __m512i RoundToUpperHalf(__m512 v) {
  const __m512i u = _mm512_castps_si512(v);
  const __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  __m512i r = _mm512_add_epi32(u, _mm512_set1_epi32(0x7fff));
  r = _mm512_mask_add_epi32(r, odd, r, _mm512_set1_epi32(1));
  return _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x400000));
}
[[gnu::always_inline]] inline void StorePair(BF16* p, F32 low, F32 high) {
  alignas(64) static constexpr std::uint16_t kUpper[32] = {
      1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
      33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  _mm512_storeu_si512(p,
                      _mm512_permutex2var_epi16(RoundToUpperHalf(low.v), _mm512_load_si512(kUpper),
                                                RoundToUpperHalf(high.v)));
}
#endif

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
