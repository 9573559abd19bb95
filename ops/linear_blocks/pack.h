// SPDX-License-Identifier: Apache-2.0
// Arranges the blocks of 16 rows so that a vector holds 4 quants of each.
//
//   16 f16 d, (16 f16 m,) then for each 4 neighbours along k, 16 rows x 4 bytes; a byte of 4-bit
//   quants holds those of k and, in its high bits, of k + 16
#pragma once
#include <cstdint>
#include <cstring>

#include "anyop/simd.h"
#include "ops/common/transpose.h"
#include "ops/linear_blocks/format.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// out[g] = 4 bytes of each of 16 rows, those at 4 g: rows of 16 bytes, 64 bytes for each g < 4.
template <class Row>
[[gnu::always_inline]] inline void TransposeRows(Row&& row, char* out) {
#if defined(__AVX512F__)
  __m512i v[4];  // a quarter of v[i] is a row: i, 4 + i, 8 + i, 12 + i
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto at = [&](int r) { return reinterpret_cast<const __m128i*>(row(r + i)); };
    v[i] = _mm512_castsi128_si512(_mm_loadu_si128(at(0)));
    v[i] = _mm512_inserti32x4(v[i], _mm_loadu_si128(at(4)), 1);
    v[i] = _mm512_inserti32x4(v[i], _mm_loadu_si128(at(8)), 2);
    v[i] = _mm512_inserti32x4(v[i], _mm_loadu_si128(at(12)), 3);
  }
  const __m512i low[2] = {_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpacklo_epi32(v[2], v[3])};
  const __m512i high[2] = {_mm512_unpackhi_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[2], v[3])};
  _mm512_storeu_si512(out, _mm512_unpacklo_epi64(low[0], low[1]));
  _mm512_storeu_si512(out + 64, _mm512_unpackhi_epi64(low[0], low[1]));
  _mm512_storeu_si512(out + 128, _mm512_unpacklo_epi64(high[0], high[1]));
  _mm512_storeu_si512(out + 192, _mm512_unpackhi_epi64(high[0], high[1]));
#else
#pragma GCC unroll 4
  for (int r = 0; r < kGroupRows; r += 4) {
    Square<std::int32_t, 16>::Transpose([&](int i) { return row(r + i); }, out + r * 4, 64);
  }
#endif
}

// One block of 16 rows, `stride` bytes apart.
template <class F>
[[gnu::always_inline]] inline void PackBlock(const char* block, std::int64_t stride, char* out) {
  constexpr int kHead = 2 * F::kNumbers;
  const char* const quarters[4] = {block, block + 4 * stride, block + 8 * stride,
                                   block + 12 * stride};
  const auto row = [&](int r) { return quarters[r / 4] + r % 4 * stride; };
#if defined(__AVX512F__)
  const __m512i at =
      _mm512_mullo_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), _mm512_set1_epi64(stride));
  const __m512i starts = _mm512_inserti64x4(  // d, then m or two quants
      _mm512_castsi256_si512(_mm512_i64gather_epi32(at, block, 1)),
      _mm512_i64gather_epi32(at, quarters[2], 1), 1);
  auto* numbers = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(numbers, _mm512_cvtepi32_epi16(starts));
  if constexpr (F::kNumbers > 1) {
    _mm256_storeu_si256(numbers + 1, _mm512_cvtepi32_epi16(_mm512_srli_epi32(starts, 16)));
  }
#else
  for (int r = 0; r < kGroupRows; ++r) {
    for (int i = 0; i < F::kNumbers; ++i) {
      std::memcpy(out + 2 * (i * kGroupRows + r), row(r) + 2 * i, 2);
    }
  }
#endif
#pragma GCC unroll 2
  for (int at_byte = kHead; at_byte < F::kBytes; at_byte += 16) {
    TransposeRows([&](int r) { return row(r) + at_byte; }, out + at_byte * kGroupRows);
  }
}

// `blocks` blocks of each of `rows` <= 16 rows of row_blocks blocks; other rows are zero. Brings as
// many bytes, from `ahead` on, into the second level of cache.
template <class F>
[[gnu::noinline]] void PackGroup(const char* weight, std::int64_t rows, std::int64_t row_blocks,
                                 std::int64_t blocks, const char* ahead, char* out) {
  const std::int64_t row_bytes = row_blocks * F::kBytes;
  for (std::int64_t b = 0; b < blocks; ++b, out += kGroupBlockBytes<F>) {
    const char* block = weight + b * F::kBytes;
    if (rows == kGroupRows) {
#pragma GCC unroll 16
      for (int line = 0; line < kGroupBlockBytes<F>; line += 64) {
        __builtin_prefetch(ahead + line, 0, 2);
      }
      ahead += kGroupBlockBytes<F>;
      PackBlock<F>(block, row_bytes, out);
    } else {
      char padded[kGroupRows][F::kBytes] = {};
      for (int r = 0; r < rows; ++r) std::memcpy(padded[r], block + r * row_bytes, F::kBytes);
      PackBlock<F>(padded[0], F::kBytes, out);
    }
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
