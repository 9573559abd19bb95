// SPDX-License-Identifier: Apache-2.0
// What matrix tiles need of an instruction set beyond simd.h.
//
//   LoadPair(p)          p[0], p[1], p[0], p[1], ...
//   LoadSplit(p, e, o)   2 * kLanes bf16: those at even places, those at odd places
//   SumPairs(a, b)       a0 + a1, a2 + a3, ..., b0 + b1, ...
//   SumLanes(a, out)     out[i] = the sum of the lanes of a[i], the same order for each i < 4
#pragma once
#include <cstring>

#include "anyop/simd.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

#define ANYOP_LANE_FN [[gnu::always_inline]] inline

#if defined(__AVX512F__)

ANYOP_LANE_FN F32 LoadPair(const float* p) {
  double pair;
  std::memcpy(&pair, p, sizeof(pair));
  return {_mm512_castpd_ps(_mm512_set1_pd(pair))};
}
ANYOP_LANE_FN void LoadSplit(const BF16* p, F32& even, F32& odd) {
  const __m512i v = _mm512_loadu_si512(p);
  even = {_mm512_castsi512_ps(_mm512_slli_epi32(v, 16))};
  odd = {_mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(int(0xffff0000))))};
}
ANYOP_LANE_FN F32 SumPairs(F32 a, F32 b) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  return {
      _mm512_add_ps(_mm512_permutex2var_ps(a.v, even, b.v), _mm512_permutex2var_ps(a.v, odd, b.v))};
}
ANYOP_LANE_FN __m128 FoldLanes(F32 a) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

#elif defined(__AVX2__)

ANYOP_LANE_FN F32 LoadPair(const float* p) {
  double pair;
  std::memcpy(&pair, p, sizeof(pair));
  return {_mm256_castpd_ps(_mm256_set1_pd(pair))};
}
ANYOP_LANE_FN void LoadSplit(const BF16* p, F32& even, F32& odd) {
  const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  even = {_mm256_castsi256_ps(_mm256_slli_epi32(v, 16))};
  odd = {_mm256_castsi256_ps(_mm256_and_si256(v, _mm256_set1_epi32(int(0xffff0000))))};
}
ANYOP_LANE_FN F32 SumPairs(F32 a, F32 b) {
  const __m256d mixed = _mm256_castps_pd(_mm256_hadd_ps(a.v, b.v));
  return {_mm256_castpd_ps(_mm256_permute4x64_pd(mixed, 0xd8))};
}
ANYOP_LANE_FN __m128 FoldLanes(F32 a) {
  return _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
}

#elif defined(__aarch64__)

ANYOP_LANE_FN F32 LoadPair(const float* p) {
  std::uint64_t pair;
  std::memcpy(&pair, p, sizeof(pair));
  return {vreinterpretq_f32_u64(vdupq_n_u64(pair))};
}
ANYOP_LANE_FN void LoadSplit(const BF16* p, F32& even, F32& odd) { LoadEvenOdd(p, even, odd); }
ANYOP_LANE_FN F32 SumPairs(F32 a, F32 b) { return {vpaddq_f32(a.v, b.v)}; }

#else

ANYOP_LANE_FN F32 LoadPair(const float* p) { return {lanes::V{p[0], p[1], p[0], p[1]}}; }
ANYOP_LANE_FN void LoadSplit(const BF16* p, F32& even, F32& odd) {
  lanes::U v;
  std::memcpy(&v, p, sizeof(v));
  constexpr bool kLittle = std::endian::native == std::endian::little;
  const lanes::V low = lanes::Value(v << 16), high = lanes::Value(v & 0xffff0000u);
  even = {kLittle ? low : high};
  odd = {kLittle ? high : low};
}
ANYOP_LANE_FN F32 SumPairs(F32 a, F32 b) {
  const lanes::V even = __builtin_shuffle(a.v, b.v, lanes::I{0, 2, 4, 6});
  return {even + __builtin_shuffle(a.v, b.v, lanes::I{1, 3, 5, 7})};
}
ANYOP_LANE_FN lanes::V FoldLanes(F32 a) { return a.v; }

#endif

#if defined(__AVX2__)
ANYOP_LANE_FN void SumLanes(const F32 (&a)[4], float* out) {
  __m128 s0 = FoldLanes(a[0]), s1 = FoldLanes(a[1]), s2 = FoldLanes(a[2]), s3 = FoldLanes(a[3]);
  _MM_TRANSPOSE4_PS(s0, s1, s2, s3);
  _mm_storeu_ps(out, _mm_add_ps(_mm_add_ps(s0, s1), _mm_add_ps(s2, s3)));
}
#elif defined(__aarch64__)
ANYOP_LANE_FN void SumLanes(const F32 (&a)[4], float* out) {
  Store(out, {vpaddq_f32(vpaddq_f32(a[0].v, a[1].v), vpaddq_f32(a[2].v, a[3].v))});
}
#else
ANYOP_LANE_FN void SumLanes(const F32 (&a)[4], float* out) {
  for (int i = 0; i < 4; ++i) {
    const lanes::V v = FoldLanes(a[i]);
    out[i] = (v[0] + v[1]) + (v[2] + v[3]);
  }
}
#endif

#undef ANYOP_LANE_FN

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
