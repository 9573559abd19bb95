// SPDX-License-Identifier: Apache-2.0
// The f16 numbers of a strip of blocks of 16 rows, as lanes of rows.
//
//   Begin(w, stride)               w: the first strip of the first row
//   Read(p, next, stride, row)     those of rows [row, row + 4); p: the strip of the first of them,
//                                  next: the strip after it
//   Spread()                       all rows have been read
//   d(b, v), m(b, v)               those of block b of the rows from kLanes * v on
//   Advance()                      the next strip is next
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "ops/linear_blocks/strip_lanes.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

#define ANYOP_LANE_FN [[gnu::always_inline]]

#if defined(__AVX512F__)

// Words of 4 rows are put together in vectors: one by one they would take as many stores.
template <class F>
class Numbers {
 public:
  ANYOP_LANE_FN void Begin(const char*, std::int64_t) {}
  ANYOP_LANE_FN void Advance() {}
  ANYOP_LANE_FN F32 d(int b, int) const { return d_[b]; }
  ANYOP_LANE_FN F32 m(int b, int) const { return m_[b]; }

  // quads_[i]: [block][number][4 rows].
  ANYOP_LANE_FN void Read(const char* p, const char*, std::int64_t stride, int row) {
    if constexpr (F::kBits == 8) {
#pragma GCC unroll 16
      for (int i = 0; i < 4 * kParts; ++i) {
        const int b = i / 4, r = i % 4;
        std::int32_t word;  // and two quants
        std::memcpy(&word, p + r * stride + b * F::kBytes, sizeof(word));
        quads_[b] = row + r ? _mm512_mask_set1_epi32(quads_[b], __mmask16(1 << (row + r)), word)
                            : _mm512_set1_epi32(word);
      }
    } else {
      alignas(64) static constexpr Index kIndex;
      const __m512i pair = _mm512_load_si512(kIndex.pair), four = _mm512_load_si512(kIndex.four);
      const auto at = [&](int r)
                          [[gnu::always_inline]] { return _mm512_loadu_si512(p + r * stride); };
      quads_[row / 4] =
          _mm512_permutex2var_epi16(_mm512_permutex2var_epi16(at(0), pair, at(1)), four,
                                    _mm512_permutex2var_epi16(at(2), pair, at(3)));
    }
  }

  ANYOP_LANE_FN void Spread() {
    if constexpr (F::kBits == 8) {
#pragma GCC unroll 4
      for (int b = 0; b < kParts; ++b) d_[b] = {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(quads_[b]))};
    } else if constexpr (F::kNumbers == 1) {
      const __m512i low = Join(quads_[0], quads_[1]), high = Join(quads_[2], quads_[3]);
      Take(low, high, 0, d_[0], d_[1]);
      Take(low, high, 2, d_[2], d_[3]);
    } else {
      const __m512i low[2] = {_mm512_shuffle_i32x4(quads_[0], quads_[1], 0x44),
                              _mm512_shuffle_i32x4(quads_[0], quads_[1], 0xee)};
      const __m512i high[2] = {_mm512_shuffle_i32x4(quads_[2], quads_[3], 0x44),
                               _mm512_shuffle_i32x4(quads_[2], quads_[3], 0xee)};
#pragma GCC unroll 4
      for (int b = 0; b < kParts; ++b) Take(low[b / 2], high[b / 2], b % 2 * 2, d_[b], m_[b]);
    }
  }

 private:
  struct Index {  // of words, in two vectors
    std::int16_t pair[32] = {}, four[32] = {};
    constexpr Index() {
      for (int i = 0; i < kParts * F::kNumbers; ++i) {
        const int word = i / F::kNumbers * F::kBytes / 2 + i % F::kNumbers;
        for (int r = 0; r < 2; ++r) pair[2 * i + r] = std::int16_t(32 * r + word);
        for (int r = 0; r < 4; ++r) four[4 * i + r] = std::int16_t(r / 2 * 32 + 2 * i + r % 2);
      }
    }
  };
  static __m512i Join(__m512i a, __m512i b) {
    return _mm512_inserti64x4(a, _mm512_castsi512_si256(b), 1);
  }
  // Quarters i and i + 4 of both sides are 16 numbers, and so are i + 1 and i + 5.
  static void Take(__m512i low, __m512i high, int i, F32& first, F32& second) {
    const __m512i index =
        _mm512_add_epi64(_mm512_setr_epi64(0, 4, 8, 12, 1, 5, 9, 13), _mm512_set1_epi64(i));
    const __m512i both = _mm512_permutex2var_epi64(low, index, high);
    first = {_mm512_cvtph_ps(_mm512_castsi512_si256(both))};
    second = {_mm512_cvtph_ps(_mm512_extracti64x4_epi64(both, 1))};
  }

  __m512i quads_[4];
  F32 d_[kParts], m_[kParts];
};

#else

// Words are put together by plain moves, one strip ahead: a load would wait for the stores.
template <class F>
class Numbers {
 public:
  ANYOP_LANE_FN void Begin(const char* w, std::int64_t stride) {
    for (int row = 0; row < kGroupRows; row += 4) Copy(w + row * stride, stride, now_ + row);
  }
  ANYOP_LANE_FN void Read(const char*, const char* next, std::int64_t stride, int row) {
    Copy(next, stride, then_ + row);
  }
  ANYOP_LANE_FN void Spread() {}
  ANYOP_LANE_FN void Advance() { std::swap(now_, then_); }
  ANYOP_LANE_FN F32 d(int b, int v) const {
    return Load(now_ + b * F::kNumbers * kGroupRows + v * kLanes);
  }
  ANYOP_LANE_FN F32 m(int b, int v) const {
    return Load(now_ + (b * F::kNumbers + 1) * kGroupRows + v * kLanes);
  }

 private:
  static void Write(F16* at, std::uint32_t low, std::uint32_t high) {
    constexpr bool kLittle = std::endian::native == std::endian::little;
    static_assert(kLittle);
    const std::uint64_t four = low | std::uint64_t(high) << 32;
    std::memcpy(at, &four, sizeof(four));
  }
  ANYOP_LANE_FN static void Copy(const char* p, std::int64_t stride, F16* to) {
#pragma GCC unroll 4
    for (int b = 0; b < kParts; ++b, p += F::kBytes, to += F::kNumbers * kGroupRows) {
      std::uint32_t w[4] = {};
      for (int r = 0; r < 4; ++r) std::memcpy(&w[r], p + r * stride, 2 * F::kNumbers);
      if constexpr (F::kNumbers == 1) {
        Write(to, w[0] | w[1] << 16, w[2] | w[3] << 16);
      } else {
        constexpr std::uint32_t kLow = 0xffff, kHigh = 0xffff0000;
        Write(to, (w[0] & kLow) | w[1] << 16, (w[2] & kLow) | w[3] << 16);
        Write(to + kGroupRows, w[0] >> 16 | (w[1] & kHigh), w[2] >> 16 | (w[3] & kHigh));
      }
    }
  }

  F16 buffers_[2][kParts * F::kNumbers * kGroupRows];  // [block][number][16 rows]
  F16 *now_ = buffers_[0], *then_ = buffers_[1];
};

#endif

#undef ANYOP_LANE_FN

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
