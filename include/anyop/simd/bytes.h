// SPDX-License-Identifier: Apache-2.0
// The lanes of simd.h with 8-bit storage: i8 as whole numbers, f8e4m3 as its values.
//
//   LoadAny(p, n)        the first n elements of a row of any storage dtype; n is kFull or an int,
//                        other lanes read 0
//   StoreBytes(p, v, n)  i8: lanes hold whole numbers from -128 to 127. f8e4m3: rounded half to
//                        even, clamped to +-448, NaN stays NaN
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "anyop/simd.h"

#define ANYOP_LANE_FN [[gnu::always_inline]] inline

namespace anyop {
inline namespace ANYOP_ISA {
namespace lanes8 {
typedef std::uint8_t U8 [[gnu::vector_size(kLanes)]];
typedef std::uint32_t U32 [[gnu::vector_size(4 * kLanes)]];
typedef std::int32_t I32 [[gnu::vector_size(4 * kLanes)]];
typedef float V [[gnu::vector_size(4 * kLanes)]];

// A word with the f8e4m3 shifted left by 7 is the f16 of its value / 256, subnormals included; only
// NaN must be put in. 0xbfff clears bit 14, where widening a signed byte leaves a second sign.
#if defined(__AVX512F__)
ANYOP_LANE_FN F32 Widen(U8 b, std::int8_t) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(std::bit_cast<__m128i>(b)))};
}
ANYOP_LANE_FN F32 Widen(U8 b, F8E4M3) {
  const __m256i w = _mm256_slli_epi16(_mm256_cvtepi8_epi16(std::bit_cast<__m128i>(b)), 7);
  const __m256i all = _mm256_set1_epi16(0x3f80);
  const __mmask16 nan = _mm256_testn_epi16_mask(_mm256_xor_si256(w, all), all);
  const __m256i h = _mm256_and_si256(w, _mm256_set1_epi16(std::int16_t(0xbfff)));
  const __m256i f16 = _mm256_mask_blend_epi16(nan, h, _mm256_set1_epi16(0x7e00));
  return {_mm512_mul_ps(_mm512_cvtph_ps(f16), _mm512_set1_ps(256.0f))};
}
#elif defined(__AVX2__)
ANYOP_LANE_FN __m128i Words(U8 b) {
  return _mm_cvtepi8_epi16(_mm_cvtsi64_si128(std::bit_cast<std::int64_t>(b)));
}
ANYOP_LANE_FN F32 Widen(U8 b, std::int8_t) {
  const __m128i bytes = _mm_cvtsi64_si128(std::bit_cast<std::int64_t>(b));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes))};
}
ANYOP_LANE_FN F32 Widen(U8 b, F8E4M3) {
  const __m128i w = _mm_slli_epi16(Words(b), 7), all = _mm_set1_epi16(0x3f80);
  const __m128i nan = _mm_cmpeq_epi16(_mm_and_si128(w, all), all);
  const __m128i h = _mm_and_si128(w, _mm_set1_epi16(std::int16_t(0xbfff)));
  const __m128i f16 = _mm_or_si128(h, _mm_and_si128(nan, _mm_set1_epi16(0x7c00)));
  return {_mm256_mul_ps(_mm256_cvtph_ps(f16), _mm256_set1_ps(256.0f))};
}
#elif defined(__aarch64__)
ANYOP_LANE_FN int16x4_t Words(U8 b) {
  return vget_low_s16(vmovl_s8(vcreate_s8(std::bit_cast<std::uint32_t>(b))));
}
ANYOP_LANE_FN F32 Widen(U8 b, std::int8_t) { return {vcvtq_f32_s32(vmovl_s16(Words(b)))}; }
ANYOP_LANE_FN F32 Widen(U8 b, F8E4M3) {
  const uint16x4_t w = vreinterpret_u16_s16(vshl_n_s16(Words(b), 7)), all = vdup_n_u16(0x3f80);
  const uint16x4_t nan = vceq_u16(vand_u16(w, all), all);
  const uint16x4_t h = vand_u16(w, vdup_n_u16(0xbfff));
  const uint16x4_t f16 = vorr_u16(h, vand_u16(nan, vdup_n_u16(0x7c00)));
  return {vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(f16)), 256.0f)};
}
#else
ANYOP_LANE_FN F32 Widen(U8 b, std::int8_t) {
  const I32 q = I32(__builtin_convertvector(b, U32) << 24) >> 24;
  return std::bit_cast<F32>(__builtin_convertvector(q, V));
}
// The vector form of F8E4M3's conversion in dtype.h.
ANYOP_LANE_FN F32 Widen(U8 b, F8E4M3) {
  const U32 u = __builtin_convertvector(b, U32);
  const U32 m = u & 0x7f, sign = (u & 0x80) << 24;
  const U32 normal = (m << 20) + 0x3c000000;
  const U32 small = std::bit_cast<U32>(__builtin_convertvector(I32(m), V) * 0x1p-9f);
  const U32 nan = U32{} + 0x7fc00000;
  const U32 value = m >= 8 ? (m == 0x7f ? nan : normal) : small;
  return std::bit_cast<F32>(sign | value);
}
#endif

// Stores the lowest byte of each of the first n lanes.
template <class N>
ANYOP_LANE_FN void StoreLowBytes(void* p, I32 v, N n) {
#if defined(__AVX512F__)
  const __m512i u = std::bit_cast<__m512i>(v);
  if constexpr (std::is_same_v<N, Full>) {
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(u));
  } else {
    _mm512_mask_cvtepi32_storeu_epi8(p, lanes::First(n), u);
  }
#elif defined(__AVX2__)
  const __m256i u = std::bit_cast<__m256i>(v & 0xff);
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1));
  const std::int64_t bytes = _mm_cvtsi128_si64(_mm_packus_epi16(words, words));
  std::memcpy(p, &bytes, std::size_t(n));
#elif defined(__aarch64__)
  const uint16x4_t words = vmovn_u32(std::bit_cast<uint32x4_t>(v));
  const uint8x8_t bytes = vmovn_u16(vcombine_u16(words, words));
  const std::uint32_t four = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
  std::memcpy(p, &four, std::size_t(n));
#else
  const U8 bytes = __builtin_convertvector(v, U8);
  std::memcpy(p, &bytes, std::size_t(n));
#endif
}
ANYOP_LANE_FN I32 ToWhole(F32 a) {
#if defined(__AVX512F__)
  return std::bit_cast<I32>(_mm512_cvtps_epi32(a.v));
#elif defined(__AVX2__)
  return std::bit_cast<I32>(_mm256_cvtps_epi32(a.v));
#else
  return __builtin_convertvector(std::bit_cast<V>(a), I32);
#endif
}
}  // namespace lanes8

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

template <class N>
ANYOP_LANE_FN void StoreBytes(std::int8_t* p, F32 a, N n) {
  lanes8::StoreLowBytes(p, lanes8::ToWhole(a), n);
}
// The vector form of F8E4M3's constructor in dtype.h. Where |a| < 2^-6 an addition rounds to
// multiples of 2^-9; else rounding adds to the bits.
template <class N>
ANYOP_LANE_FN void StoreBytes(F8E4M3* p, F32 a, N n) {
  using lanes8::I32;
  const F32 size = Abs(a), most = Set(448.0f);
  const I32 bits = std::bit_cast<I32>(Select(size < most, size, most));
  const I32 rounded = (bits - 0x3c000000 + 0x7ffff + (bits >> 20 & 1)) >> 20;
  const I32 small = std::bit_cast<I32>(size + Set(0x1p14f)) - 0x46800000;
  const F32 value =
      Select(size < Set(0x1p-6f), std::bit_cast<F32>(small), std::bit_cast<F32>(rounded));
  const F32 finite = Select(IsNan(a), std::bit_cast<F32>(I32{} + 0x7f), value);
  const I32 sign = std::bit_cast<I32>(a) >> 24 & 0x80;
  lanes8::StoreLowBytes(p, std::bit_cast<I32>(finite) | sign, n);
}

}  // namespace ANYOP_ISA
}  // namespace anyop

#undef ANYOP_LANE_FN
