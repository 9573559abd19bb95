// SPDX-License-Identifier: Apache-2.0
// Rows of floats as bytes with a scale: every step in f32, rounded on its own, so that the result
// is the same bits everywhere.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "anyop/simd/bytes.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// q = rne(x * inverse), clamped to [-limit, limit], + zero_point, clamped to a byte. NaN:
// zero_point.
struct RowQuantization {
  float scale, inverse, limit;
  std::int32_t zero_point;
};
// Round is exact up to here on every machine (the portable one adds 1.5 * 2^23). What is clamped to
// this is beyond all bytes, also with a zero point of at most half of it added.
inline constexpr float kFarLimit = 0x1p22f;

// For zero points further than kFarLimit / 2, one element at a time.
template <class T>
[[gnu::noinline]] inline void QuantizeFar(const T* x, std::int64_t d, const RowQuantization& row,
                                          std::int8_t* q) {
  const float zero = float(row.zero_point);
  for (std::int64_t i = 0; i < d; ++i) {
    const float product = float(x[i]) * row.inverse;
    const float whole = product == product ? std::nearbyint(product) + zero : zero;
    q[i] = std::int8_t(whole < -128 ? -128 : whole > 127 ? 127 : whole);
  }
}

// q = rne(v) + zero, clamped to a byte; NaN counts as 0. |v| and |zero| are at most kFarLimit, and
// |v| at most 127 without a zero.
template <bool kHasZero, int N, class Count>
[[gnu::always_inline]] inline void StoreRounded(std::int8_t* q, const F32 (&v)[N],
                                                std::int32_t zero, Count count) {
#if defined(__AVX512F__)
  if constexpr (N == 4) {
    const __m512i zeros = _mm512_set1_epi32(zero);
    __m512i i[4];
    for (int k = 0; k < 4; ++k) {
      const __mmask16 number = _mm512_cmp_ps_mask(v[k].v, v[k].v, _CMP_ORD_Q);
      i[k] = _mm512_add_epi32(_mm512_maskz_cvtps_epi32(number, v[k].v), zeros);
    }
    // Packing saturates, within quarters of a register.
    const __m512i bytes =
        _mm512_packs_epi16(_mm512_packs_epi32(i[0], i[1]), _mm512_packs_epi32(i[2], i[3]));
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    _mm512_storeu_si512(q, _mm512_permutexvar_epi32(order, bytes));
    return;
  }
#elif defined(__AVX2__)
  if constexpr (N == 4) {
    const __m256i zeros = _mm256_set1_epi32(zero);
    __m256i i[4];
    for (int k = 0; k < 4; ++k) {
      const __m256 number = _mm256_and_ps(v[k].v, _mm256_cmp_ps(v[k].v, v[k].v, _CMP_ORD_Q));
      i[k] = _mm256_add_epi32(_mm256_cvtps_epi32(number), zeros);
    }
    const __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(i[0], i[1]), _mm256_packs_epi32(i[2], i[3]));
    const __m256i order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), _mm256_permutevar8x32_epi32(bytes, order));
    return;
  }
#endif
  for (int k = 0; k < N; ++k) {
    F32 whole = Round(Select(IsNan(v[k]), Zero(), v[k]));
    if constexpr (kHasZero) whole = Max(Min(whole + Set(float(zero)), Set(127)), Set(-128));
    StoreBytes(q + k * kLanes, whole, count);
  }
}

// kHasZero is false where row.zero_point is 0 and row.limit is 127.
template <bool kHasZero, class T>
[[gnu::always_inline]] inline void QuantizeElements(const T* x, std::int64_t d,
                                                    const RowQuantization& row, std::int8_t* q) {
  const F32 inverse = Set(row.inverse), low = Set(-row.limit), high = Set(row.limit);
  ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
    F32 v[block];
    LoadAll(v, x + i, count);
    for (int k = 0; k < block; ++k) v[k] = Max(low, Min(high, v[k] * inverse));  // NaN stays
    StoreRounded<kHasZero>(q + i, v, row.zero_point, count);
  });
}

template <class T>
[[gnu::noinline]] inline void QuantizeWith(const T* x, std::int64_t d, const RowQuantization& row,
                                           std::int8_t* q) {
  if (std::fabs(float(row.zero_point)) > kFarLimit / 2) return QuantizeFar(x, d, row, q);
  if (row.zero_point == 0 && row.limit == 127) return QuantizeElements<false>(x, d, row, q);
  QuantizeElements<true>(x, d, row, q);
}

// The smallest and the largest element, and of kWithZero 0; NaN is ignored. A row without a number
// and 0 gives infinity and -infinity.
template <bool kWithZero = true, class T>
[[gnu::always_inline]] inline void FindExtremes(const T* x, std::int64_t d, float* low,
                                                float* high) {
  const F32 above = Set(kWithZero ? 0 : std::numeric_limits<float>::infinity());
  const F32 below = Set(kWithZero ? 0 : -std::numeric_limits<float>::infinity());
  F32 lows[4] = {above, above, above, above}, highs[4] = {below, below, below, below};
  ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
    F32 v[block];
    LoadBlock(v, x + i, count);
    for (int k = 0; k < block; ++k) {
      lows[k] = Min(kWithZero ? v[k] : KeepFirst(v[k], count, above), lows[k]);
      highs[k] = Max(kWithZero ? v[k] : KeepFirst(v[k], count, below), highs[k]);
    }
  });
  *low = ReduceMin(Min(Min(lows[0], lows[1]), Min(lows[2], lows[3])));
  *high = ReduceMax(Max(Max(highs[0], highs[1]), Max(highs[2], highs[3])));
}

// scale = max |x| / 127; 1 for zeros, infinity with every q 0 where the row holds one.
template <class T>
[[gnu::noinline]] inline RowQuantization QuantizeSymmetric(const T* x, std::int64_t d,
                                                           std::int8_t* q) {
  float low, high;
  FindExtremes(x, d, &low, &high);
  const float largest = -low > high ? -low : high;
  const RowQuantization row{largest == 0 ? 1 : largest / 127, 127 / largest, 127, 0};
  QuantizeWith(x, d, row, q);
  return row;
}

// The range of a row, which holds 0 unless it has its own. Own ranges hold it too where f32 could
// not count the steps between them and 0, as in rows of one value, and rows without a number.
struct RowRange {
  float low, high;
  bool is_own;
};
template <class T>
[[gnu::always_inline]] inline RowRange RangeOf(const T* x, std::int64_t d, bool is_own) {
  RowRange range{0, 0, is_own};
  if (!is_own) {
    FindExtremes(x, d, &range.low, &range.high);
    return range;
  }
  FindExtremes<false>(x, d, &range.low, &range.high);
  const float steps = range.low * (255 / (range.high - range.low));
  if (std::fabs(steps) <= kFarLimit) return range;  // NaN is not
  return {std::fmin(range.low, 0.0f), std::fmax(range.high, 0.0f), false};
}

// scale = (high - low) / 255 and a zero point; both 1 and -128 for zeros, infinity and 0 with every
// q 0 where the row holds an infinity.
template <class T>
[[gnu::noinline]] inline RowQuantization QuantizeAsymmetric(const T* x, std::int64_t d,
                                                            bool has_own_range, std::int8_t* q) {
  const auto [low, high, is_own] = RangeOf(x, d, has_own_range);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (low == -kInfinity || high == kInfinity) {
    std::memset(q, 0, std::size_t(d));
    return {kInfinity, 0, kFarLimit, 0};
  }
  const float range = high - low, inverse = 255 / range;
  // A range below 2^-120 has no inverse: 0 * infinity stands for 0.
  const float zero = -128 - (low == 0 ? 0 : low * inverse);
  const auto zero_point = std::int32_t(is_own || zero < 127 ? std::nearbyint(zero) : 127);
  const RowQuantization row{range == 0 ? 1 : range / 255, inverse, kFarLimit, zero_point};
  QuantizeWith(x, d, row, q);
  return row;
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
