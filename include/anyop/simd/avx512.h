// SPDX-License-Identifier: Apache-2.0
// The lanes of simd.h on AVX-512 (F, BW, DQ, VL). Included by simd.h only.
#pragma once
// GCC 12 warns of its own intrinsics (bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

namespace anyop {
inline namespace ANYOP_ISA {

inline constexpr int kLanes = 16;
struct F32 {
  __m512 v;
};
struct Mask {
  __mmask16 m;
};

namespace lanes {
ANYOP_LANE_FN __mmask16 First(int n) { return __mmask16((1u << n) - 1); }
ANYOP_LANE_FN __m512i Bits(__m512 v) { return _mm512_castps_si512(v); }

// Word i becomes the upper half of lane i, above zeros.
ANYOP_LANE_FN F32 FromBF16(__m256i b) {
  const __m512i index = _mm512_set_epi16(15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10, 9, 9, 8, 8,
                                         7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
  return {_mm512_castsi512_ps(
      _mm512_maskz_permutexvar_epi16(0xaaaaaaaa, index, _mm512_castsi256_si512(b)))};
}
// The upper half of each lane becomes v rounded half to even; the lower half is left as it comes.
// vcvtneps2bf16 is one instruction but takes subnormals for 0.
ANYOP_LANE_FN __m512i RoundBF16(__m512 v) {
  const __m512i u = Bits(v);
  const __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
  const __m512i down = _mm512_add_epi32(u, _mm512_set1_epi32(0x7fff));
  const __m512i r = _mm512_mask_add_epi32(down, odd, u, _mm512_set1_epi32(0x8000));
  // Replaces NaNs, and nothing else, by the quiet NaN of v.
  return Bits(_mm512_fixupimm_ps(_mm512_castsi512_ps(r), v, _mm512_set1_epi32(0x22), 0));
}
ANYOP_LANE_FN __m256i ToBF16(__m512 v) {
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(RoundBF16(v), 16));
}
#if defined(__AVX512BF16__)
// vcvtne2ps2bf16 takes subnormals for 0: vectors that hold one are converted by RoundBF16.
ANYOP_LANE_FN bool AnySubnormal(__m512 a, __m512 b) {
  constexpr int kSubnormal = 0x20;
  return !_kortestz_mask16_u8(_mm512_fpclass_ps_mask(a, kSubnormal),
                              _mm512_fpclass_ps_mask(b, kSubnormal));
}
ANYOP_LANE_FN __m512i ToBF16Pair(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}
#endif
ANYOP_LANE_FN F32 FromF16(__m256i h) { return {_mm512_cvtph_ps(h)}; }
ANYOP_LANE_FN __m256i ToF16(__m512 v) {
  return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
ANYOP_LANE_FN __m256i Load16(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
ANYOP_LANE_FN void Store16(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
}  // namespace lanes

ANYOP_LANE_FN F32 Set(float s) { return {_mm512_set1_ps(s)}; }
ANYOP_LANE_FN F32 Zero() { return {_mm512_setzero_ps()}; }

ANYOP_LANE_FN F32 Load(const float* p) { return {_mm512_loadu_ps(p)}; }
ANYOP_LANE_FN F32 Load(const BF16* p) { return lanes::FromBF16(lanes::Load16(p)); }
ANYOP_LANE_FN F32 Load(const F16* p) { return lanes::FromF16(lanes::Load16(p)); }
ANYOP_LANE_FN F32 LoadN(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(lanes::First(n), p)};
}
ANYOP_LANE_FN F32 LoadN(const BF16* p, int n) {
  return lanes::FromBF16(_mm256_maskz_loadu_epi16(lanes::First(n), p));
}
ANYOP_LANE_FN F32 LoadN(const F16* p, int n) {
  return lanes::FromF16(_mm256_maskz_loadu_epi16(lanes::First(n), p));
}
ANYOP_LANE_FN void Store(float* p, F32 a) { _mm512_storeu_ps(p, a.v); }
ANYOP_LANE_FN void Store(BF16* p, F32 a) { lanes::Store16(p, lanes::ToBF16(a.v)); }
ANYOP_LANE_FN void Store(F16* p, F32 a) { lanes::Store16(p, lanes::ToF16(a.v)); }
ANYOP_LANE_FN void LoadEvenOdd(const BF16* p, F32& even, F32& odd) {
  const __m512i u = _mm512_loadu_si512(p);
  even.v = _mm512_castsi512_ps(_mm512_slli_epi32(u, 16));
  odd.v = _mm512_castsi512_ps(_mm512_and_si512(u, _mm512_set1_epi32(int(0xffff0000))));
}
ANYOP_LANE_FN void StoreEvenOdd(BF16* p, F32 even, F32 odd) {
#if defined(__AVX512BF16__)
  if (!lanes::AnySubnormal(even.v, odd.v)) [[likely]] {
    const __m512i index =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    _mm512_storeu_si512(p, _mm512_permutexvar_epi16(index, lanes::ToBF16Pair(even.v, odd.v)));
    return;
  }
#endif
  const __m512i low = _mm512_srli_epi32(lanes::RoundBF16(even.v), 16);
  _mm512_storeu_si512(p, _mm512_mask_blend_epi16(0xaaaaaaaa, low, lanes::RoundBF16(odd.v)));
}
ANYOP_LANE_FN void StoreN(float* p, F32 a, int n) {
  _mm512_mask_storeu_ps(p, lanes::First(n), a.v);
}
ANYOP_LANE_FN void StoreN(BF16* p, F32 a, int n) {
  _mm256_mask_storeu_epi16(p, lanes::First(n), lanes::ToBF16(a.v));
}
ANYOP_LANE_FN void StoreN(F16* p, F32 a, int n) {
  _mm256_mask_storeu_epi16(p, lanes::First(n), lanes::ToF16(a.v));
}

ANYOP_LANE_FN F32 operator+(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
ANYOP_LANE_FN F32 operator-(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
ANYOP_LANE_FN F32 operator*(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
ANYOP_LANE_FN F32 operator/(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
ANYOP_LANE_FN Mask operator<(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
ANYOP_LANE_FN Mask operator<=(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
ANYOP_LANE_FN Mask operator>(F32 a, F32 b) { return b < a; }
ANYOP_LANE_FN Mask operator>=(F32 a, F32 b) { return b <= a; }
ANYOP_LANE_FN Mask operator==(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
ANYOP_LANE_FN Mask operator!=(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_NEQ_UQ)}; }
ANYOP_LANE_FN Mask operator&(Mask a, Mask b) { return {__mmask16(a.m & b.m)}; }
ANYOP_LANE_FN Mask operator|(Mask a, Mask b) { return {__mmask16(a.m | b.m)}; }
ANYOP_LANE_FN std::uint32_t Bits(Mask m) { return m.m; }
ANYOP_LANE_FN Mask FirstLanes(int n) { return {lanes::First(n)}; }
ANYOP_LANE_FN Mask IsNan(F32 a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
ANYOP_LANE_FN F32 Select(Mask m, F32 a, F32 b) { return {_mm512_mask_blend_ps(m.m, b.v, a.v)}; }

ANYOP_LANE_FN F32 Fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
ANYOP_LANE_FN F32 FmaExact(F32 a, F32 b, F32 c) { return Fma(a, b, c); }
ANYOP_LANE_FN F32 Max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }
ANYOP_LANE_FN F32 Min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }
ANYOP_LANE_FN F32 Abs(F32 a) { return {_mm512_abs_ps(a.v)}; }
ANYOP_LANE_FN F32 Sqrt(F32 a) { return {_mm512_sqrt_ps(a.v)}; }
ANYOP_LANE_FN F32 Round(F32 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// The division takes as long as the whole of Exp: 14 bits and one Newton step instead. Of infinity
// the step is NaN, for which Min gives its second operand.
ANYOP_LANE_FN F32 Reciprocal(F32 a) {
  const __m512 r = _mm512_rcp14_ps(a.v), two = _mm512_set1_ps(2.0f);
  return {_mm512_mul_ps(r, _mm512_min_ps(_mm512_fnmadd_ps(a.v, r, two), two))};
}
ANYOP_LANE_FN F32 ScaleByPowerOf2(F32 a, F32 n) { return {_mm512_scalef_ps(a.v, n.v)}; }

// ScaleByPowerOf2 takes any n: 0 and infinity for huge ones, NaN for NaN.
inline constexpr bool kScaleSaturates = true;
// a, moved to within limit of 0; limit, with some sign, where a is NaN. 0b0010: the operand that is
// nearer to 0, with the sign of a.
ANYOP_LANE_FN F32 LimitAbs(F32 a, F32 limit) { return {_mm512_range_ps(a.v, limit.v, 0b0010)}; }

ANYOP_LANE_FN float ReduceAdd(F32 a) { return _mm512_reduce_add_ps(a.v); }
ANYOP_LANE_FN float ReduceMax(F32 a) { return _mm512_reduce_max_ps(a.v); }
ANYOP_LANE_FN float ReduceMin(F32 a) { return _mm512_reduce_min_ps(a.v); }

}  // namespace ANYOP_ISA
}  // namespace anyop
