// SPDX-License-Identifier: Apache-2.0
// The lanes of simd.h on AVX2 with FMA and F16C. Included by simd.h only.
#pragma once
#include <immintrin.h>

namespace anyop {
inline namespace ANYOP_ISA {

inline constexpr int kLanes = 8;
struct F32 {
  __m256 v;
};
struct Mask {
  __m256 m;
};

namespace lanes {
// A load from kWindow + 8 - n gives n lanes of ones, then zeros.
alignas(64) inline constexpr std::int32_t kWindow[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
ANYOP_LANE_FN __m256i First(int n) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kWindow + 8 - n));
}
ANYOP_LANE_FN __m256i Bits(__m256 v) { return _mm256_castps_si256(v); }

ANYOP_LANE_FN F32 FromBF16(__m128i b) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(b), 16))};
}
// The upper half of each lane becomes v rounded half to even; the lower half is left as it comes.
ANYOP_LANE_FN __m256i RoundBF16(__m256 v) {
  const __m256i u = Bits(v);
  const __m256i lsb = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), lsb);
  const __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
  const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  return _mm256_blendv_epi8(r, quiet, Bits(nan));
}
ANYOP_LANE_FN __m128i ToBF16(__m256 v) {
  const __m256i bits = _mm256_srli_epi32(RoundBF16(v), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
}
ANYOP_LANE_FN F32 FromF16(__m128i h) { return {_mm256_cvtph_ps(h)}; }
ANYOP_LANE_FN __m128i ToF16(__m256 v) {
  return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
ANYOP_LANE_FN __m128i Load16(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
ANYOP_LANE_FN void Store16(void* p, __m128i v) { _mm_storeu_si128(static_cast<__m128i*>(p), v); }

// The first n < 8 elements of 2 bytes, by the binary digits of n: AVX2 masks no elements of 2
// bytes, and nothing beyond them may be touched.
ANYOP_LANE_FN void Copy16(char* to, const char* from, int n) {
  if (n & 4) std::memcpy(to, from, 8), to += 8, from += 8;
  if (n & 2) std::memcpy(to, from, 4), to += 4, from += 4;
  if (n & 1) std::memcpy(to, from, 2);
}
ANYOP_LANE_FN __m128i Load16N(const void* p, int n) {
  if (n >= kLanes) return Load16(p);
  alignas(16) char bytes[16] = {};
  Copy16(bytes, static_cast<const char*>(p), n);
  return Load16(bytes);
}
ANYOP_LANE_FN void Store16N(void* p, __m128i v, int n) {
  if (n >= kLanes) return Store16(p, v);
  alignas(16) char bytes[16];
  Store16(bytes, v);
  Copy16(static_cast<char*>(p), bytes, n);
}
}  // namespace lanes

ANYOP_LANE_FN F32 Set(float s) { return {_mm256_set1_ps(s)}; }
ANYOP_LANE_FN F32 Zero() { return {_mm256_setzero_ps()}; }

ANYOP_LANE_FN F32 Load(const float* p) { return {_mm256_loadu_ps(p)}; }
ANYOP_LANE_FN F32 Load(const BF16* p) { return lanes::FromBF16(lanes::Load16(p)); }
ANYOP_LANE_FN F32 Load(const F16* p) { return lanes::FromF16(lanes::Load16(p)); }
ANYOP_LANE_FN F32 LoadN(const float* p, int n) { return {_mm256_maskload_ps(p, lanes::First(n))}; }
ANYOP_LANE_FN F32 LoadN(const BF16* p, int n) { return lanes::FromBF16(lanes::Load16N(p, n)); }
ANYOP_LANE_FN F32 LoadN(const F16* p, int n) { return lanes::FromF16(lanes::Load16N(p, n)); }
ANYOP_LANE_FN void Store(float* p, F32 a) { _mm256_storeu_ps(p, a.v); }
ANYOP_LANE_FN void Store(BF16* p, F32 a) { lanes::Store16(p, lanes::ToBF16(a.v)); }
ANYOP_LANE_FN void Store(F16* p, F32 a) { lanes::Store16(p, lanes::ToF16(a.v)); }
ANYOP_LANE_FN void StoreN(float* p, F32 a, int n) { _mm256_maskstore_ps(p, lanes::First(n), a.v); }
ANYOP_LANE_FN void StoreN(BF16* p, F32 a, int n) { lanes::Store16N(p, lanes::ToBF16(a.v), n); }
ANYOP_LANE_FN void StoreN(F16* p, F32 a, int n) { lanes::Store16N(p, lanes::ToF16(a.v), n); }

ANYOP_LANE_FN void LoadEvenOdd(const BF16* p, F32& even, F32& odd) {
  const __m256i u = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  even.v = _mm256_castsi256_ps(_mm256_slli_epi32(u, 16));
  odd.v = _mm256_castsi256_ps(_mm256_and_si256(u, _mm256_set1_epi32(int(0xffff0000))));
}
ANYOP_LANE_FN void StoreEvenOdd(BF16* p, F32 even, F32 odd) {
  const __m256i low = _mm256_srli_epi32(lanes::RoundBF16(even.v), 16);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm256_blend_epi16(low, lanes::RoundBF16(odd.v), 0xaa));
}

ANYOP_LANE_FN F32 operator+(F32 a, F32 b) { return {_mm256_add_ps(a.v, b.v)}; }
ANYOP_LANE_FN F32 operator-(F32 a, F32 b) { return {_mm256_sub_ps(a.v, b.v)}; }
ANYOP_LANE_FN F32 operator*(F32 a, F32 b) { return {_mm256_mul_ps(a.v, b.v)}; }
ANYOP_LANE_FN F32 operator/(F32 a, F32 b) { return {_mm256_div_ps(a.v, b.v)}; }
ANYOP_LANE_FN Mask operator<(F32 a, F32 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
ANYOP_LANE_FN Mask operator<=(F32 a, F32 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ)}; }
ANYOP_LANE_FN Mask operator>(F32 a, F32 b) { return b < a; }
ANYOP_LANE_FN Mask operator>=(F32 a, F32 b) { return b <= a; }
ANYOP_LANE_FN Mask operator==(F32 a, F32 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
ANYOP_LANE_FN Mask operator!=(F32 a, F32 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_NEQ_UQ)}; }
ANYOP_LANE_FN Mask operator&(Mask a, Mask b) { return {_mm256_and_ps(a.m, b.m)}; }
ANYOP_LANE_FN Mask operator|(Mask a, Mask b) { return {_mm256_or_ps(a.m, b.m)}; }
ANYOP_LANE_FN std::uint32_t Bits(Mask m) { return std::uint32_t(_mm256_movemask_ps(m.m)); }
ANYOP_LANE_FN Mask FirstLanes(int n) { return {_mm256_castsi256_ps(lanes::First(n))}; }
ANYOP_LANE_FN Mask IsNan(F32 a) { return {_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q)}; }
ANYOP_LANE_FN F32 Select(Mask m, F32 a, F32 b) { return {_mm256_blendv_ps(b.v, a.v, m.m)}; }

ANYOP_LANE_FN F32 Fma(F32 a, F32 b, F32 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
ANYOP_LANE_FN F32 FmaExact(F32 a, F32 b, F32 c) { return Fma(a, b, c); }
ANYOP_LANE_FN F32 Max(F32 a, F32 b) { return {_mm256_max_ps(a.v, b.v)}; }
ANYOP_LANE_FN F32 Min(F32 a, F32 b) { return {_mm256_min_ps(a.v, b.v)}; }
ANYOP_LANE_FN F32 Abs(F32 a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
ANYOP_LANE_FN F32 Sqrt(F32 a) { return {_mm256_sqrt_ps(a.v)}; }
ANYOP_LANE_FN F32 Round(F32 a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
ANYOP_LANE_FN F32 Reciprocal(F32 a) { return Set(1.0f) / a; }
inline constexpr bool kScaleSaturates = false;
// In two steps: 2^n itself may lie outside the normal range. The first is exact.
ANYOP_LANE_FN F32 ScaleByPowerOf2(F32 a, F32 n) {
  const __m256i i = _mm256_cvtps_epi32(n.v), half = _mm256_srai_epi32(i, 1);
  const auto power = [](__m256i e) __attribute__((always_inline)) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
  };
  return {_mm256_mul_ps(_mm256_mul_ps(a.v, power(half)), power(_mm256_sub_epi32(i, half)))};
}

namespace lanes {
template <class F>
ANYOP_LANE_FN float Reduce(F32 a, F f) {
  const __m128 q = f(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  const __m128 h = f(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(f(h, _mm_shuffle_ps(h, h, 1)));
}
}  // namespace lanes
ANYOP_LANE_FN float ReduceAdd(F32 a) {
  return lanes::Reduce(
      a, [](__m128 x, __m128 y) __attribute__((always_inline)) { return _mm_add_ps(x, y); });
}
ANYOP_LANE_FN float ReduceMax(F32 a) {
  return lanes::Reduce(
      a, [](__m128 x, __m128 y) __attribute__((always_inline)) { return _mm_max_ps(x, y); });
}
ANYOP_LANE_FN float ReduceMin(F32 a) {
  return lanes::Reduce(
      a, [](__m128 x, __m128 y) __attribute__((always_inline)) { return _mm_min_ps(x, y); });
}

}  // namespace ANYOP_ISA
}  // namespace anyop
