// SPDX-License-Identifier: Apache-2.0
// Sums of products of bytes, as many lanes of i32 as simd.h has of f32.
//
//   LoadInts(p)            kLanes i32, or 4 bytes for each lane; StoreInts(p, a)
//   LowBits HighBits       of each byte: its low and its high 4 bits
//   DotBits(sum, w, x)     sum + the 4 products in each lane of the bytes of w, 0 to 63, and of x
//   DotBytes(sum, w, x)    the same for bytes of w from -128 to 127. x is -127 to 127 and the same
//                          in every lane. With kBytesOffset it gives kBytesOffset * (the sum of
//                          the bytes of x) too much
//   SetInts AddInts ToF32  a number in all lanes, a sum, the lanes as f32
//   Bits(a, shift, mask)   each lane shifted right (left where shift is negative), and mask
//   SignedByte(a, i)       byte i < 4 of each lane as a number; Or(a, b)
//   Keep(a)                a, loaded once: a compiler that reads memory again for each use of a
//                          vector spends the loads that such a loop is bound by
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "anyop/simd.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

#define ANYOP_LANE_FN [[gnu::always_inline]] inline

#if defined(__AVX512F__)

struct I32 {
  __m512i v;
};
ANYOP_LANE_FN I32 LoadInts(const void* p) { return {_mm512_loadu_si512(p)}; }
ANYOP_LANE_FN I32 SetInts(std::int32_t n) { return {_mm512_set1_epi32(n)}; }
ANYOP_LANE_FN I32 AddInts(I32 a, I32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
ANYOP_LANE_FN F32 ToF32(I32 a) { return {_mm512_cvtepi32_ps(a.v)}; }
ANYOP_LANE_FN I32 LowBits(I32 a) { return {_mm512_and_si512(a.v, _mm512_set1_epi8(15))}; }
ANYOP_LANE_FN I32 HighBits(I32 a) { return LowBits({_mm512_srli_epi16(a.v, 4)}); }
ANYOP_LANE_FN I32 Keep(I32 a) {
  asm volatile("" : "+v"(a.v));
  return a;
}

#if defined(__AVX512VNNI__)
inline constexpr int kBytesOffset = 128;  // the instruction wants one side unsigned
ANYOP_LANE_FN I32 DotBits(I32 sum, I32 w, I32 x) { return {_mm512_dpbusd_epi32(sum.v, w.v, x.v)}; }
ANYOP_LANE_FN I32 DotBytes(I32 sum, I32 w, I32 x) {
  return {_mm512_dpbusd_epi32(sum.v, _mm512_xor_si512(w.v, _mm512_set1_epi8(-128)), x.v)};
}
#else
inline constexpr int kBytesOffset = 0;
// Two products of at most 128 * 127 fit 16 bits.
ANYOP_LANE_FN I32 DotBits(I32 sum, I32 w, I32 x) {
  const __m512i pairs = _mm512_maddubs_epi16(w.v, x.v);
  return AddInts(sum, {_mm512_madd_epi16(pairs, _mm512_set1_epi16(1))});
}
ANYOP_LANE_FN I32 DotBytes(I32 sum, I32 w, I32 x) {
  const __mmask64 negative = _mm512_movepi8_mask(w.v);
  const __m512i turned = _mm512_mask_sub_epi8(x.v, negative, _mm512_setzero_si512(), x.v);
  return DotBits(sum, {_mm512_abs_epi8(w.v)}, {turned});
}
#endif

#elif defined(__AVX2__)

struct I32 {
  __m256i v;
};
inline constexpr int kBytesOffset = 0;
ANYOP_LANE_FN I32 LoadInts(const void* p) {
  return {_mm256_loadu_si256(static_cast<const __m256i*>(p))};
}
ANYOP_LANE_FN I32 SetInts(std::int32_t n) { return {_mm256_set1_epi32(n)}; }
ANYOP_LANE_FN I32 AddInts(I32 a, I32 b) { return {_mm256_add_epi32(a.v, b.v)}; }
ANYOP_LANE_FN F32 ToF32(I32 a) { return {_mm256_cvtepi32_ps(a.v)}; }
ANYOP_LANE_FN I32 LowBits(I32 a) { return {_mm256_and_si256(a.v, _mm256_set1_epi8(15))}; }
ANYOP_LANE_FN I32 HighBits(I32 a) { return LowBits({_mm256_srli_epi16(a.v, 4)}); }
ANYOP_LANE_FN I32 Keep(I32 a) {
  asm("" : "+x"(a.v));
  return a;
}
// Two products of at most 128 * 127 fit 16 bits.
ANYOP_LANE_FN I32 DotBits(I32 sum, I32 w, I32 x) {
  const __m256i pairs = _mm256_maddubs_epi16(w.v, x.v);
  return AddInts(sum, {_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))});
}
ANYOP_LANE_FN I32 DotBytes(I32 sum, I32 w, I32 x) {
  return DotBits(sum, {_mm256_abs_epi8(w.v)}, {_mm256_sign_epi8(x.v, w.v)});
}

#else

struct I32 {
  lanes::I v;
};
inline constexpr int kBytesOffset = 0;
ANYOP_LANE_FN I32 LoadInts(const void* p) {
  I32 a;
  std::memcpy(&a.v, p, sizeof(a.v));
  return a;
}
ANYOP_LANE_FN I32 SetInts(std::int32_t n) { return {lanes::I{n, n, n, n}}; }
ANYOP_LANE_FN I32 AddInts(I32 a, I32 b) { return {a.v + b.v}; }
ANYOP_LANE_FN F32 ToF32(I32 a) { return {__builtin_convertvector(a.v, lanes::V)}; }
ANYOP_LANE_FN I32 LowBits(I32 a) { return {a.v & 0x0f0f0f0f}; }
ANYOP_LANE_FN I32 HighBits(I32 a) { return LowBits({a.v >> 4}); }
ANYOP_LANE_FN I32 Keep(I32 a) { return a; }
ANYOP_LANE_FN I32 DotBytes(I32 sum, I32 w, I32 x) {
#if defined(__aarch64__)
  const int8x16_t a = vreinterpretq_s8_s32(w.v), b = vreinterpretq_s8_s32(x.v);
  const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
  return {vaddq_s32(sum.v, vpaddq_s32(low, vpaddlq_s16(vmull_high_s8(a, b))))};
#else
  lanes::I total = sum.v;
#pragma GCC unroll 4
  for (int shift = 0; shift < 32; shift += 8) {
    const auto byte = [&](lanes::I v) { return lanes::I(lanes::U(v) << (24 - shift)) >> 24; };
    total += byte(w.v) * byte(x.v);
  }
  return {total};
#endif
}
ANYOP_LANE_FN I32 DotBits(I32 sum, I32 w, I32 x) { return DotBytes(sum, w, x); }

#endif

// Plain vectors of words, which compilers know for every instruction set.
using Words = std::uint32_t __attribute__((vector_size(4 * kLanes)));
using SignedWords = std::int32_t __attribute__((vector_size(4 * kLanes)));
ANYOP_LANE_FN Words WordsOf(I32 a) { return std::bit_cast<Words>(a); }
ANYOP_LANE_FN I32 Bits(I32 a, int shift, std::uint32_t mask) {
  const Words v = WordsOf(a);
  return std::bit_cast<I32>((shift < 0 ? v << -shift : v >> shift) & mask);
}
ANYOP_LANE_FN I32 Or(I32 a, I32 b) { return std::bit_cast<I32>(WordsOf(a) | WordsOf(b)); }
ANYOP_LANE_FN I32 SignedByte(I32 a, int i) {
  return std::bit_cast<I32>(__builtin_convertvector(WordsOf(a) << (24 - 8 * i), SignedWords) >> 24);
}
ANYOP_LANE_FN void StoreInts(void* p, I32 a) { std::memcpy(p, &a, sizeof(a)); }

#undef ANYOP_LANE_FN

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
