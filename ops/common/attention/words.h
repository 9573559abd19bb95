// SPDX-License-Identifier: Apache-2.0
// Rows of bf16, i8 or f8e4m3 as words of bf16 for dot instructions: all three are exact in bf16.
//
// 64 elements become two vectors of 32 words: in order, but f8e4m3 fills 8 words of the first and
// of the second vector by turns.
#pragma once
#if defined(__AVX512BF16__)
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "anyop/simd/bytes.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr int kWordBlock = 64;

namespace words {

[[gnu::always_inline]] inline __mmask64 First(int n) {
  return n >= 64 ? ~__mmask64{0} : (__mmask64{1} << (n < 0 ? 0 : n)) - 1;
}

[[gnu::always_inline]] inline __m512i FromI8(__m128i low, __m128i high) {
  const __m512 a = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(low));
  const __m512 b = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(high));
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b, a));
}

// A table of 16 bytes, one for each nibble, in every quarter: shuffles of bytes look up by
// quarters.
[[gnu::always_inline]] inline __m512i Table(const std::uint8_t (&t)[16]) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(t)));
}
// The upper byte of a bf16 has the upper 7 bits of the exponent, which the upper nibble of an
// f8e4m3 decides: e / 2 + 60. The lower byte is its lower nibble, shifted. Where e is 0 or 1 the
// value is the lower nibble * 2^-9, from tables.
inline constexpr std::uint8_t kUpper[16] = {0, 61, 62, 63, 64, 65, 66, 67};
inline constexpr std::uint8_t kSmallUpper[16] = {0,    0x3b, 0x3b, 0x3b, 0x3c, 0x3c, 0x3c, 0x3c,
                                                 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c};
inline constexpr std::uint8_t kSmallLower[16] = {0,    0,    0x80, 0xc0, 0x00, 0x20, 0x40, 0x60,
                                                 0x80, 0x90, 0xa0, 0xb0, 0xc0, 0xd0, 0xe0, 0xf0};
[[gnu::always_inline]] inline void FromF8(__m512i b, __m512i (&v)[2]) {
  const __m512i low = _mm512_and_si512(b, _mm512_set1_epi8(0x0f));
  const __m512i high = _mm512_and_si512(_mm512_srli_epi16(b, 4), _mm512_set1_epi8(0x07));
  const __mmask64 small = _mm512_testn_epi8_mask(b, _mm512_set1_epi8(0x70));
  __m512i upper = _mm512_shuffle_epi8(Table(kUpper), high);
  upper = _mm512_mask_shuffle_epi8(upper, small, Table(kSmallUpper), low);
  __m512i lower = _mm512_slli_epi16(low, 4);
  lower = _mm512_mask_shuffle_epi8(lower, small, Table(kSmallLower), low);
  const __m512i sign = _mm512_set1_epi8(std::int8_t(0x80));
  const __mmask64 nan =
      _mm512_cmpeq_epi8_mask(_mm512_or_si512(b, sign), _mm512_set1_epi8(std::int8_t(0xff)));
  upper = _mm512_mask_mov_epi8(upper, nan, _mm512_set1_epi8(0x7f));
  upper = _mm512_ternarylogic_epi64(upper, b, sign, 0xf8);  // upper | b & sign
  v[0] = _mm512_unpacklo_epi8(lower, upper);
  v[1] = _mm512_unpackhi_epi8(lower, upper);
}

// The order of a storage: chunk c of 8 elements lies at word At<C>(c) of 64.
template <class C>
constexpr int At(int chunk) {
  return std::is_same_v<C, F8E4M3> ? chunk % 2 * 32 + chunk / 2 * 8 : chunk * 8;
}

}  // namespace words

// The first n of 64 elements; what follows is 0 and not read. n is kAll or an int.
inline constexpr std::integral_constant<int, kWordBlock> kAll{};

template <class N>
[[gnu::always_inline]] inline void LoadWords(const BF16* p, N n, __m512i (&v)[2]) {
  if constexpr (!std::is_same_v<N, int>) {
    v[0] = _mm512_loadu_si512(p);
    v[1] = _mm512_loadu_si512(p + 32);
  } else {
    v[0] = _mm512_maskz_loadu_epi16(__mmask32(words::First(n)), p);
    v[1] = _mm512_maskz_loadu_epi16(__mmask32(words::First(n) >> 32), p + 32);
  }
}
template <class N>
[[gnu::always_inline]] inline void LoadWords(const std::int8_t* p, N n, __m512i (&v)[2]) {
  __m128i q[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    if constexpr (!std::is_same_v<N, int>) {
      q[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16 * i));
    } else {
      q[i] = _mm_maskz_loadu_epi8(__mmask16(words::First(n) >> 16 * i), p + 16 * i);
    }
  }
  v[0] = words::FromI8(q[0], q[1]);
  v[1] = words::FromI8(q[2], q[3]);
}
template <class N>
[[gnu::always_inline]] inline void LoadWords(const F8E4M3* p, N n, __m512i (&v)[2]) {
  if constexpr (!std::is_same_v<N, int>) {
    words::FromF8(_mm512_loadu_si512(p), v);
  } else {
    words::FromF8(_mm512_maskz_loadu_epi8(words::First(n), p), v);
  }
}

// A row of bf16 in the order of C's words; zeros up to a multiple of 64.
template <class C>
inline void OrderWords(const BF16* x, std::int64_t n, BF16* to) {
  for (std::int64_t e = 0; e < n; e += kWordBlock) {
    BF16 block[kWordBlock] = {};
    std::memcpy(block, x + e, std::size_t(std::min<std::int64_t>(n - e, kWordBlock)) * 2);
    for (int c = 0; c < 8; ++c) std::memcpy(to + e + words::At<C>(c), block + 8 * c, 16);
  }
}

// Two rows as pairs: vector 2 i + h takes from vector i of both the words that unpacking takes from
// its lower (h = 0) or upper halves.
[[gnu::always_inline]] inline void PairWords(const __m512i (&a)[2], const __m512i (&b)[2],
                                             __m512i (&pairs)[4]) {
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    pairs[2 * i] = _mm512_unpacklo_epi16(a[i], b[i]);
    pairs[2 * i + 1] = _mm512_unpackhi_epi16(a[i], b[i]);
  }
}
// A weight w >= 0 as the sum of two bf16 within 2^-16 w. Neither is 0, unless w is next to it: an
// infinite value times 0 would be NaN. So the upper part is below w even where w is a bf16.
struct SplitWeight {
  __m512i upper;  // words in the upper halves
  F32 lower;
};
[[gnu::always_inline]] inline SplitWeight Split(F32 w) {
  const __m512i bits = _mm512_castps_si512(w.v), one = _mm512_set1_epi32(1);
  const __mmask16 is_positive = _mm512_test_epi32_mask(bits, bits);
  const __m512i below = _mm512_mask_sub_epi32(bits, is_positive, bits, one);
  const __m512i upper = _mm512_and_si512(below, _mm512_set1_epi32(int(0xffff0000)));
  return {upper, w - F32{_mm512_castsi512_ps(upper)}};
}
// Two vectors of weights as pairs, the first in the lower words: their upper and lower parts.
[[gnu::always_inline]] inline void StoreSplit(F32 first, F32 second, float* upper, float* lower) {
  const SplitWeight a = Split(first), b = Split(second);
  _mm512_storeu_si512(upper, _mm512_or_si512(_mm512_srli_epi32(a.upper, 16), b.upper));
  const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const auto words = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b.lower.v, a.lower.v));
  _mm512_storeu_si512(lower, _mm512_permutexvar_epi16(turns, words));
}
// 64 f32 sums in the order of pairs, put in the order of elements.
template <class C>
inline void OrderSums(float* sums) {
  float in[kWordBlock];
  std::memcpy(in, sums, sizeof(in));
  for (int c = 0; c < 8; ++c) {
    const int word = words::At<C>(c), vector = word / 32, quarter = word % 32 / 8;
    for (int half = 0; half < 2; ++half) {
      std::memcpy(sums + 8 * c + 4 * half, in + (2 * vector + half) * 16 + 4 * quarter, 16);
    }
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
#endif
