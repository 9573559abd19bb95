// SPDX-License-Identifier: Apache-2.0
// Vector operations that attention needs beyond simd.h: tanh, sums of many vectors.
#pragma once
#include <cstdint>

#include "anyop/simd/bytes.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

#define ANYOP_LANE_FN [[gnu::always_inline]] inline

// Cephes tanhf: a polynomial for |x| < 0.625, else by exp.
ANYOP_LANE_FN F32 Tanh(F32 x) {
  const F32 z = x * x;
  F32 p = Fma(Set(-5.70498872745e-3f), z, Set(2.06390887954e-2f));
  p = Fma(p, z, Set(-5.37397155531e-2f));
  p = Fma(p, z, Set(1.33314422036e-1f));
  p = Fma(p, z, Set(-3.33332819422e-1f));
  const F32 small = Fma(p * z, x, x);
  const F32 large = Set(1.0f) - Set(2.0f) / (Exp(x + x) + Set(1.0f));
  return Select(Abs(x) < Set(0.625f), small, large);
}

// out[i] = the sum of the lanes of v[i].
template <int kVectors>
ANYOP_LANE_FN void SumEach(const F32 (&v)[kVectors], float* out) {
  for (int i = 0; i < kVectors; ++i) out[i] = ReduceAdd(v[i]);
}
#if defined(__AVX2__)
#if defined(__AVX512DQ__)
ANYOP_LANE_FN __m256 Half(F32 a) {
  return _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
}
#else
ANYOP_LANE_FN __m256 Half(F32 a) { return a.v; }
#endif
// The four sums side by side: each step adds two halves and keeps both vectors' results in one.
ANYOP_LANE_FN void SumFour(F32 a, F32 b, F32 c, F32 d, float* out) {
  const __m256 x = Half(a), y = Half(b), z = Half(c), w = Half(d);
  const __m256 xy = _mm256_add_ps(_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y));
  const __m256 zw = _mm256_add_ps(_mm256_unpacklo_ps(z, w), _mm256_unpackhi_ps(z, w));
  const __m256 all =
      _mm256_add_ps(_mm256_shuffle_ps(xy, zw, 0x44), _mm256_shuffle_ps(xy, zw, 0xee));
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}
#elif defined(__aarch64__)
ANYOP_LANE_FN void SumFour(F32 a, F32 b, F32 c, F32 d, float* out) {
  Store(out, {vpaddq_f32(vpaddq_f32(a.v, b.v), vpaddq_f32(c.v, d.v))});
}
#else
ANYOP_LANE_FN void SumFour(F32 a, F32 b, F32 c, F32 d, float* out) {
  const F32 v[4] = {a, b, c, d};
  SumEach(v, out);
}
#endif

#if defined(__AVX512DQ__)
// The sums over the lanes of sum[row][i], as [row][i] and zeros: one tree for all rows, not one for
// each. A sum has the same order of additions whatever the number of rows.
template <int kRows>
ANYOP_LANE_FN F32 SumFours(const F32 (&sum)[kRows][4]) {
  __m512 row[4] = {};
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const __m512 a = sum[r][0].v, b = sum[r][1].v, c = sum[r][2].v, d = sum[r][3].v;
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    row[r] = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
  }
  const auto halve = [](__m512 a, __m512 b) __attribute__((always_inline)) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  };
  return {halve(halve(row[0], row[1]), halve(row[2], row[3]))};
}
#endif

// out[row * stride + i] = the sum of the lanes of sum[row][i].
template <int kRows>
ANYOP_LANE_FN void StoreSums(const F32 (&sum)[kRows][4], float* out, std::int64_t stride) {
#if defined(__AVX512DQ__)
  const __m512 all = SumFours(sum).v;
  _mm_storeu_ps(out, _mm512_castps512_ps128(all));
  if constexpr (kRows > 1) _mm_storeu_ps(out + stride, _mm512_extractf32x4_ps(all, 1));
  if constexpr (kRows > 2) _mm_storeu_ps(out + 2 * stride, _mm512_extractf32x4_ps(all, 2));
  if constexpr (kRows > 3) _mm_storeu_ps(out + 3 * stride, _mm512_extractf32x4_ps(all, 3));
#else
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    SumFour(sum[r][0], sum[r][1], sum[r][2], sum[r][3], out + r * stride);
  }
#endif
}

#undef ANYOP_LANE_FN

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
