// SPDX-License-Identifier: Apache-2.0
// Products of bytes and elements of 4 bits, added exactly in a group.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "anyop/simd.h"
#include "ops/common/quantize/lanes.h"
#include "ops/linear_u4/exact.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Vectors of 4-byte lanes for 8 rows, and elements along k that a step takes.
inline constexpr int kHalfVectors = kLanes == 4 ? 2 : 1;
inline constexpr int kDotStep = kLanes == 16 ? 8 : 4;
// Rows of x beside each other.
inline constexpr int kDotRows = kVectorRegisters == 32 ? 8 : 2;

// The elements of a step, 4 neighbours along k in a lane. Lane b has row 2b (even) or 2b + 1 (odd);
// of 16 lanes the upper 8 have the next 4 neighbours.
struct DotElements {
  I32 even[kHalfVectors], odd[kHalfVectors];
};

[[gnu::always_inline]] inline DotElements LoadDotElements(const std::uint8_t* words) {
  DotElements r;
#if defined(__AVX512F__)
  // Dword 2l + h holds rows 8h to 8h + 7 of element l; a quarter gets 4 elements of one h.
  const __m512i quarters = _mm512_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
  const __m512i turn =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  const __m512i both =
      _mm512_shuffle_epi8(_mm512_permutexvar_epi32(quarters, _mm512_loadu_si512(words)), turn);
  r.even[0] = LowBits({both});
  r.odd[0] = HighBits({both});
#elif defined(__AVX2__)
  const __m256i halves = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
  const __m256i turn = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words));
  const __m256i both = _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(all, halves), turn);
  r.even[0] = LowBits({both});
  r.odd[0] = HighBits({both});
#else
  typedef std::int8_t Bytes [[gnu::vector_size(16)]];
  Bytes a, b;  // two words each
  std::memcpy(&a, words, 16);
  std::memcpy(&b, words + 16, 16);
  const Bytes low =
      __builtin_shuffle(a, b, Bytes{0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27});
  const Bytes high =
      __builtin_shuffle(a, b, Bytes{4, 12, 20, 28, 5, 13, 21, 29, 6, 14, 22, 30, 7, 15, 23, 31});
  r.even[0] = LowBits(std::bit_cast<I32>(low));
  r.even[1] = LowBits(std::bit_cast<I32>(high));
  r.odd[0] = HighBits(std::bit_cast<I32>(low));
  r.odd[1] = HighBits(std::bit_cast<I32>(high));
#endif
  return r;
}

// The bytes of x for a step, beside each lane of the elements.
[[gnu::always_inline]] inline I32 LoadDotX(const std::int8_t* x) {
  std::int32_t first;
  std::memcpy(&first, x, 4);
#if defined(__AVX512F__)
  std::int32_t second;
  std::memcpy(&second, x + 4, 4);
  return {_mm512_mask_set1_epi32(_mm512_set1_epi32(first), 0xff00, second)};
#else
  return SetInts(first);
#endif
}

// Sums of a row of x, as DotElements has lanes.
struct DotSums {
  I32 even[kHalfVectors], odd[kHalfVectors];
  [[gnu::always_inline]] void Clear() {
#pragma GCC unroll 2
    for (int i = 0; i < kHalfVectors; ++i) even[i] = odd[i] = SetInts(0);
  }
  [[gnu::always_inline]] void Add(const DotElements& w, I32 x) {
#pragma GCC unroll 2
    for (int i = 0; i < kHalfVectors; ++i) {
      even[i] = DotBits(even[i], w.even[i], x);
      odd[i] = DotBits(odd[i], w.odd[i], x);
    }
  }
  // Even rows, then odd ones.
  [[gnu::always_inline]] void Join(I32 (&to)[kWordVectors]) const {
#if defined(__AVX512F__)
    // Halves of even and of odd rows beside each other, the lower ones and the upper ones.
    const __m512i lower = _mm512_inserti64x4(even[0].v, _mm512_castsi512_si256(odd[0].v), 1);
    const __m512i upper = _mm512_shuffle_i64x2(even[0].v, odd[0].v, 0xee);
    to[0] = {_mm512_add_epi32(lower, upper)};
#else
#pragma GCC unroll 2
    for (int i = 0; i < kHalfVectors; ++i) {
      to[i] = even[i];
      to[kHalfVectors + i] = odd[i];
    }
#endif
  }
};

// U4Numbers of 16 rows: those of even rows, then those of odd ones.
[[gnu::always_inline]] inline void LoadParted(const float* from, F32 (&to)[kWordVectors]) {
#if defined(__AVX512F__)
  const __m512i rows = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  to[0] = {_mm512_permutexvar_ps(rows, _mm512_loadu_ps(from))};
#else
  typedef float Floats [[gnu::vector_size(4 * kLanes)]];
  typedef std::int32_t Index [[gnu::vector_size(4 * kLanes)]];
  Index even{};
  for (int i = 0; i < kLanes; ++i) even[i] = 2 * i;
#pragma GCC unroll 2
  for (int i = 0; i < kHalfVectors; ++i) {
    Floats a, b;
    std::memcpy(&a, from + 2 * i * kLanes, sizeof(a));
    std::memcpy(&b, from + (2 * i + 1) * kLanes, sizeof(b));
    to[i] = std::bit_cast<F32>(__builtin_shuffle(a, b, even));
    to[kHalfVectors + i] = std::bit_cast<F32>(__builtin_shuffle(a, b, even + 1));
  }
#endif
}
inline void StoreParted(const F32 (&sums)[kWordVectors], float* to) {
  float parted[kWordRows];
#pragma GCC unroll 4
  for (int v = 0; v < kWordVectors; ++v) Store(parted + v * kLanes, sums[v]);
  for (int j = 0; j < kWordRows; ++j) to[j] = parted[j % 2 * (kWordRows / 2) + j / 2];
}

// Rows of x in bytes: sums_of[r][i] is the sum of those of group i.
struct BytesOfX {
  const std::int8_t* q;
  std::int64_t pitch;
  const std::int32_t* sums_of;
};

// Adds elements [l, end) of kR rows.
template <int kR>
[[gnu::always_inline]] inline void AddDots(const std::uint8_t* words, const BytesOfX& x,
                                           std::int64_t l, std::int64_t end, DotSums (&sums)[kR]) {
  const auto add = [&](const std::uint8_t* w, auto&& row) [[gnu::always_inline]] {
    const DotElements q = LoadDotElements(w);
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) sums[r].Add(q, LoadDotX(row(r)));
  };
  for (; l + kDotStep <= end; l += kDotStep) {
    Prefetch(words + l * kWordBytes + 2048);
    add(words + l * kWordBytes, [&](int r) { return x.q + r * x.pitch + l; });
  }
  if (l == end) return;
  std::uint8_t tail[kDotStep * kWordBytes] = {};
  std::int8_t bytes[kR][kDotStep] = {};
  std::memcpy(tail, words + l * kWordBytes, std::size_t(end - l) * kWordBytes);
  for (int r = 0; r < kR; ++r) {
    std::memcpy(bytes[r], x.q + r * x.pitch + l, std::size_t(end - l));
  }
  add(tail, [&](int r) { return bytes[r]; });
}

// sums[kR][16], without the scale of a row of x; groups in ascending order.
template <int kR>
[[gnu::noinline]] void MultiplyDots(const std::uint8_t* words, const U4Groups& groups,
                                    const GroupNumbers* numbers, const BytesOfX& x, float* sums) {
  constexpr int kV = kWordVectors;
  F32 total[kR][kV];
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) total[r][v] = Zero();
  }
  for (std::int64_t i = 0; i < groups.groups; ++i) {
    DotSums dots[kR];
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) dots[r].Clear();
    AddDots<kR>(words, x, groups.begin(i), groups.end(i), dots);
    F32 zero[kV], scale[kV];
    LoadParted(numbers[i].zero, zero);
    LoadParted(numbers[i].scale, scale);
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) {
      I32 joined[kV];
      dots[r].Join(joined);
      const std::int32_t sum_of_x = x.sums_of[r * groups.groups + i];
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) {
        const auto z = __builtin_convertvector(std::bit_cast<lanes8::V>(zero[v]), SignedWords);
        const auto exact = std::bit_cast<SignedWords>(joined[v]) - z * sum_of_x;
        total[r][v] = Fma(ToF32(std::bit_cast<I32>(exact)), scale[v], total[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) StoreParted(total[r], sums + r * kWordRows);
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
