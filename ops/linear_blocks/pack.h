// SPDX-License-Identifier: Apache-2.0
// Arranges the blocks of 16 rows so that a vector holds 4 quants of each.
//
//   16 f16 d, (16 f16 m,) then for each 4 neighbours along k, 16 rows x 4 bytes; a byte of 4-bit
//   quants holds those of k and, in its high bits, of k + 16
//
// Further bits of 32 quants follow the numbers: bit g of the four bytes of a row holds the fifth
// bits of k = 4g to 4g + 3; bits 2g and 2g + 1 of the first four bytes, and of the next, hold the
// two high bits of quants of 6 bits of k = 4g, and of k = 4g + 16. A superblock keeps its fields
// in their order, each as that of a block for one part of 32 after another; 4 bytes of scales of a
// row are 4 bytes of a group.
#pragma once
#include <cstdint>
#include <cstring>

#include "anyop/simd.h"
#include "ops/common/quantize/lanes.h"
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

// The numbers at the start of a block of 16 rows, `stride` bytes apart.
template <class F>
[[gnu::always_inline]] inline void PackNumbers(const char* block, std::int64_t stride, char* out) {
#if defined(__AVX512F__)
  const __m512i at =
      _mm512_mullo_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), _mm512_set1_epi64(stride));
  const __m512i starts = _mm512_inserti64x4(  // d, then m or two quants
      _mm512_castsi256_si512(_mm512_i64gather_epi32(at, block, 1)),
      _mm512_i64gather_epi32(at, block + 8 * stride, 1), 1);
  auto* numbers = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(numbers, _mm512_cvtepi32_epi16(starts));
  if constexpr (F::kNumbers > 1) {
    _mm256_storeu_si256(numbers + 1, _mm512_cvtepi32_epi16(_mm512_srli_epi32(starts, 16)));
  }
#else
  for (int r = 0; r < kGroupRows; ++r) {
    for (int i = 0; i < F::kNumbers; ++i) {
      std::memcpy(out + 2 * (i * kGroupRows + r), block + r * stride + 2 * i, 2);
    }
  }
#endif
}

// Bit 4g + i of each of 16 numbers becomes its bit 8i + g.
[[gnu::always_inline]] inline void GroupFifthBits(char* numbers) {
#pragma GCC unroll 4
  for (int at = 0; at < 64; at += 4 * kLanes) {
    Words bits = WordsOf(LoadInts(numbers + at));
    const auto swap = [&](int shift, std::uint32_t mask) {
      const Words changed = (bits >> shift ^ bits) & mask;
      bits ^= changed ^ changed << shift;
    };
    swap(14, 0x0000cccc);
    swap(7, 0x00aa00aa);
    swap(2, 0x0c0c0c0c);
    swap(1, 0x22222222);
    StoreInts(numbers + at, std::bit_cast<I32>(bits));
  }
}

// Exchanges the bits `mask` of b with those of a that are `shift` to their left, in 64 bytes.
[[gnu::always_inline]] inline void SwapBits(char* a, char* b, int shift, std::uint32_t mask) {
#pragma GCC unroll 4
  for (int at = 0; at < 64; at += 4 * kLanes) {
    const Words left = WordsOf(LoadInts(a + at)), right = WordsOf(LoadInts(b + at));
    const Words changed = (left >> shift ^ right) & mask;
    StoreInts(a + at, std::bit_cast<I32>(left ^ changed << shift));
    StoreInts(b + at, std::bit_cast<I32>(right ^ changed));
  }
}
// Transposes squares of bits across kCount vectors of 64 bytes, bit groups of `width`.
template <int kCount>
[[gnu::always_inline]] inline void TransposeBits(char* out, int width) {
  constexpr std::uint32_t kMasks[] = {0, 0x55555555, 0x33333333, 0, 0x0f0f0f0f};
#pragma GCC unroll 4
  for (int step = kCount / 2; step > 0; step /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      if (i & step) continue;
      SwapBits(out + 64 * i, out + 64 * (i + step), step * width, kMasks[step * width]);
    }
  }
}

// Superblocks of 16 rows. Two parts share the bytes of their low bits.
template <class F>
[[gnu::always_inline]] inline void PackSuperblock(const char* block, std::int64_t stride,
                                                  char* out) {
  constexpr int kNumberBytes = 2 * F::kNumbers;
  PackNumbers<F>(block, stride, out);
  // 16 bytes a time; the 12 of scales take 4 more with them, which the next overwrite.
  for (int at = kNumberBytes; at < F::kBytes; at += at == kNumberBytes ? 12 : 16) {
    TransposeRows([&](int r) { return block + r * stride + at; }, out + at * kGroupRows);
  }
  if constexpr (F::kBits == 5) TransposeBits<8>(out + F::kHigh * kGroupRows, 1);
  for (int i = 0; i < 2 * kSuperblockParts; ++i) {
    char* low = out + F::kQuants * kGroupRows + (i / 4 * 8 + i % 4) * 64;
    SwapBits(low, low + 256, 4, 0x0f0f0f0f);
  }
}
template <>
[[gnu::always_inline]] inline void PackSuperblock<Q6_K>(const char* block, std::int64_t stride,
                                                        char* out) {
  const auto transpose = [&](int at, char* to) {
    TransposeRows([&](int r) { return block + r * stride + at; }, to);
  };
  for (int half = 0; half < 2; ++half) {
    for (int pair = 0; pair < 2; ++pair) {  // parts `pair` and `pair` + 2 share bytes
      char* low = out + (4 * half + pair) * 256;
      transpose(64 * half + 32 * pair, low);
      transpose(64 * half + 32 * pair + 16, low + 512);
      for (int i = 0; i < 4; ++i) SwapBits(low + 64 * i, low + 512 + 64 * i, 4, 0x0f0f0f0f);
    }
    for (int i = 0; i < 2; ++i) {  // the halves of 4 parts share bytes
      alignas(64) char pairs[4][64];
      transpose(Q6_K::kHigh + 32 * half + 16 * i, pairs[0]);
      TransposeBits<4>(pairs[0], 2);
      char* high = out + Q6_K::kHigh * kGroupRows + 4 * half * 128 + 64 * i;
      for (int part = 0; part < 4; ++part) std::memcpy(high + 128 * part, pairs[part], 64);
    }
  }
  transpose(192, out + 192 * kGroupRows);
  for (int r = 0; r < kGroupRows; ++r) {
    std::memcpy(out + 208 * kGroupRows + 2 * r, block + r * stride + 208, 2);
  }
}

// One block of 16 rows, `stride` bytes apart.
template <class F>
[[gnu::always_inline]] inline void PackBlock(const char* block, std::int64_t stride, char* out) {
  if constexpr (kIsSuperblock<F>) {
    PackSuperblock<F>(block, stride, out);
    return;
  }
  const char* const quarters[4] = {block, block + 4 * stride, block + 8 * stride,
                                   block + 12 * stride};
  const auto row = [&](int r) { return quarters[r / 4] + r % 4 * stride; };
  PackNumbers<F>(block, stride, out);
  if constexpr (F::kBits == 5) {
    char* high = out + F::kHigh * kGroupRows;  // and 12 bytes that the next overwrite
    TransposeRows([&](int r) { return row(r) + F::kHigh; }, high);
    GroupFifthBits(high);
  }
#pragma GCC unroll 2
  for (int at = F::kQuants; at < F::kBytes; at += 16) {
    TransposeRows([&](int r) { return row(r) + at; }, out + at * kGroupRows);
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
      for (int line = 0; line < int(kGroupBlockBytes<F>); line += 64) {
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
