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
typedef std::int8_t I8 [[gnu::vector_size(kLanes)]];
typedef std::uint32_t U32 [[gnu::vector_size(4 * kLanes)]];
typedef float V [[gnu::vector_size(4 * kLanes)]];

ANYOP_LANE_FN F32 Widen(U8 bytes, std::int8_t) {
  return std::bit_cast<F32>(__builtin_convertvector(I8(bytes), V));
}
// The vector form of F8E4M3's conversion in dtype.h.
ANYOP_LANE_FN F32 Widen(U8 bytes, F8E4M3) {
  const U32 u = __builtin_convertvector(bytes, U32);
  const U32 m = u & 0x7f, sign = (u & 0x80) << 24;
  const U32 normal = (m << 20) + 0x3c000000;
  const U32 small = std::bit_cast<U32>(__builtin_convertvector(m, V) * 0x1p-9f);
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
#if defined(__AVX512DQ__)
// Four sums at a time: halve each vector twice, then a 4 x 4 transpose.
ANYOP_LANE_FN __m128 Quarter(F32 a) {
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}
#elif defined(__AVX2__)
ANYOP_LANE_FN __m128 Quarter(F32 a) {
  return _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
}
#endif
#if defined(__AVX2__)
ANYOP_LANE_FN void SumFour(F32 a, F32 b, F32 c, F32 d, float* out) {
  __m128 x = Quarter(a), y = Quarter(b), z = Quarter(c), w = Quarter(d);
  _MM_TRANSPOSE4_PS(x, y, z, w);
  _mm_storeu_ps(out, _mm_add_ps(_mm_add_ps(x, y), _mm_add_ps(z, w)));
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
