// SPDX-License-Identifier: Apache-2.0
// Vectors of the quants of kParts neighbouring blocks of a row: a part is 16 bytes, 4 lanes.
//
//   LoadNibbles<F>(p)   the 16 bytes of quants of each of kParts blocks of 4 bits from p on
//   LoadHalf<F>(p, i)   bytes: the 32 quants of each of the first (0) or last (1) kParts / 2
//   blocks;
//                       with one part a half of a block
//   SumQuads(v)         part b, lane r: the sum of part b of v[r]
//   AddHalves(a, b)     even parts plus odd parts of a, then of b
//   TransposeParts(v)   v[b] becomes the parts b of all
#pragma once
#include <cstdint>

#include "ops/common/quantize/lanes.h"
#include "ops/linear_blocks/format.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr int kParts = kLanes / 4;

#define ANYOP_LANE_FN [[gnu::always_inline]] inline

#if defined(__AVX512F__)

// Two loads and a permutation: 16-bit words of 4 blocks, from p on and up to their end.
template <class F>
ANYOP_LANE_FN I32 LoadNibbles(const char* p) {
  constexpr int kWords = F::kBytes / 2, kSecond = 4 * F::kBytes - 64;
  struct Index {
    std::int16_t word[32];
  };
  alignas(64) static constexpr Index kIndex = [] {
    Index index{};
    for (int i = 0; i < 32; ++i) {
      const int word = i / 8 * kWords + F::kNumbers + i % 8;
      index.word[i] = std::int16_t(word < 32 ? word : 32 + word - kSecond / 2);
    }
    return index;
  }();
  return {_mm512_permutex2var_epi16(_mm512_loadu_si512(p), _mm512_load_si512(&kIndex),
                                    _mm512_loadu_si512(p + kSecond))};
}
template <class F>
ANYOP_LANE_FN I32 LoadHalf(const char* p, int i) {
  const auto at = [&](int b) {
    const char* q = p + (2 * i + b) * F::kBytes + 2;
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q));
  };
  return {_mm512_inserti64x4(_mm512_castsi256_si512(at(0)), at(1), 1)};
}
ANYOP_LANE_FN I32 SumQuads(const I32 (&v)[4]) {
  const auto sum_pair = [](I32 a, I32 b) __attribute__((always_inline)) {
    return AddInts({_mm512_unpacklo_epi32(a.v, b.v)}, {_mm512_unpackhi_epi32(a.v, b.v)});
  };
  const I32 a = sum_pair(v[0], v[1]), b = sum_pair(v[2], v[3]);
  return AddInts({_mm512_unpacklo_epi64(a.v, b.v)}, {_mm512_unpackhi_epi64(a.v, b.v)});
}
ANYOP_LANE_FN I32 AddHalves(I32 a, I32 b) {
  return AddInts({_mm512_shuffle_i32x4(a.v, b.v, 0x88)}, {_mm512_shuffle_i32x4(a.v, b.v, 0xdd)});
}
ANYOP_LANE_FN void TransposeParts(I32 (&v)[4]) {
  const __m512i low[2] = {_mm512_shuffle_i32x4(v[0].v, v[1].v, 0x44),
                          _mm512_shuffle_i32x4(v[2].v, v[3].v, 0x44)};
  const __m512i high[2] = {_mm512_shuffle_i32x4(v[0].v, v[1].v, 0xee),
                           _mm512_shuffle_i32x4(v[2].v, v[3].v, 0xee)};
  v[0] = {_mm512_shuffle_i32x4(low[0], low[1], 0x88)};
  v[1] = {_mm512_shuffle_i32x4(low[0], low[1], 0xdd)};
  v[2] = {_mm512_shuffle_i32x4(high[0], high[1], 0x88)};
  v[3] = {_mm512_shuffle_i32x4(high[0], high[1], 0xdd)};
}

#elif defined(__AVX2__)

template <class F>
ANYOP_LANE_FN I32 LoadNibbles(const char* p) {
  const auto at = [&](int b) {
    const char* q = p + b * F::kBytes + 2 * F::kNumbers;
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(q));
  };
  return {_mm256_inserti128_si256(_mm256_castsi128_si256(at(0)), at(1), 1)};
}
template <class F>
ANYOP_LANE_FN I32 LoadHalf(const char* p, int i) {
  return LoadInts(p + i * F::kBytes + 2);
}
ANYOP_LANE_FN I32 SumQuads(const I32 (&v)[4]) {
  return {_mm256_hadd_epi32(_mm256_hadd_epi32(v[0].v, v[1].v), _mm256_hadd_epi32(v[2].v, v[3].v))};
}
ANYOP_LANE_FN I32 AddHalves(I32 a, I32 b) {
  return AddInts({_mm256_permute2x128_si256(a.v, b.v, 0x20)},
                 {_mm256_permute2x128_si256(a.v, b.v, 0x31)});
}
ANYOP_LANE_FN void TransposeParts(I32 (&v)[2]) {
  const __m256i low = _mm256_permute2x128_si256(v[0].v, v[1].v, 0x20);
  v[1] = {_mm256_permute2x128_si256(v[0].v, v[1].v, 0x31)};
  v[0] = {low};
}

#else

template <class F>
ANYOP_LANE_FN I32 LoadNibbles(const char* p) {
  return LoadInts(p + 2 * F::kNumbers);
}
template <class F>
ANYOP_LANE_FN I32 LoadHalf(const char* p, int i) {
  return LoadInts(p + 2 + 16 * i);
}
ANYOP_LANE_FN I32 SumQuads(const I32 (&v)[4]) {
#if defined(__aarch64__)
  return {vpaddq_s32(vpaddq_s32(v[0].v, v[1].v), vpaddq_s32(v[2].v, v[3].v))};
#else
  const auto sum_pair = [](lanes::I a, lanes::I b) __attribute__((always_inline)) {
    return __builtin_shuffle(a, b, lanes::I{0, 2, 4, 6}) +
           __builtin_shuffle(a, b, lanes::I{1, 3, 5, 7});
  };
  return {sum_pair(sum_pair(v[0].v, v[1].v), sum_pair(v[2].v, v[3].v))};
#endif
}
ANYOP_LANE_FN I32 AddHalves(I32 a, I32) { return a; }  // never called
ANYOP_LANE_FN void TransposeParts(I32 (&)[1]) {}

#endif

#undef ANYOP_LANE_FN

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
