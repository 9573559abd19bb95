// SPDX-License-Identifier: Apache-2.0
// Vector operations that attention needs beyond simd.h: 8-bit storage, tanh, sums of many vectors.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "anyop/simd.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

#define ANYOP_LANE_FN [[gnu::always_inline]] inline

namespace lanes8 {
typedef std::uint8_t U8 [[gnu::vector_size(kLanes)]];
typedef std::uint32_t U32 [[gnu::vector_size(4 * kLanes)]];
typedef std::int32_t I32 [[gnu::vector_size(4 * kLanes)]];
typedef float V [[gnu::vector_size(4 * kLanes)]];

// The compiler turns this conversion into scalar code.
#if defined(__AVX512F__)
ANYOP_LANE_FN U32 ToU32(U8 b) { return U32(_mm512_cvtepu8_epi32(std::bit_cast<__m128i>(b))); }
#elif defined(__AVX2__)
ANYOP_LANE_FN U32 ToU32(U8 b) {
  return U32(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(std::bit_cast<std::int64_t>(b))));
}
#elif defined(__aarch64__)
ANYOP_LANE_FN U32 ToU32(U8 b) {
  const uint8x8_t bytes = vcreate_u8(std::bit_cast<std::uint32_t>(b));
  return U32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))));
}
#else
ANYOP_LANE_FN U32 ToU32(U8 b) { return __builtin_convertvector(b, U32); }
#endif

ANYOP_LANE_FN F32 Widen(U8 bytes, std::int8_t) {
  const I32 q = I32(ToU32(bytes) << 24) >> 24;
  return std::bit_cast<F32>(__builtin_convertvector(q, V));
}
// The vector form of F8E4M3's conversion in dtype.h.
ANYOP_LANE_FN F32 Widen(U8 bytes, F8E4M3) {
  const U32 u = ToU32(bytes);
  const U32 m = u & 0x7f, sign = (u & 0x80) << 24;
  const U32 normal = (m << 20) + 0x3c000000;
  const U32 small = std::bit_cast<U32>(__builtin_convertvector(I32(m), V) * 0x1p-9f);
  const U32 nan = U32{} + 0x7fc00000;
  const U32 value = m >= 8 ? (m == 0x7f ? nan : normal) : small;
  return std::bit_cast<F32>(sign | value);
}
}  // namespace lanes8

// The first n elements of a row of any storage dtype; n is kFull or an int.
template <class C, class N>
ANYOP_LANE_FN F32 LoadAny(const C* p, N n) {
  if constexpr (sizeof(C) == 1) {
    lanes8::U8 bytes{};
    std::memcpy(&bytes, p, std::size_t(n));
    return lanes8::Widen(bytes, C{});
  } else {
    return LoadN(p, n);
  }
}

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

#undef ANYOP_LANE_FN

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
