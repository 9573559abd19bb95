// SPDX-License-Identifier: Apache-2.0
// Arranges the blocks of 16 rows so that a vector holds 4 quants of each.
//
//   16 f16 d, (16 f16 m,) then for each 4 neighbours along k, 16 rows x 4 bytes; a byte of 4-bit
//   quants holds those of k and, in its high bits, of k + 16
#pragma once
#include <cstdint>
#include <cstring>

#include "anyop/simd.h"
#include "linear_blocks/format.h"
#include "ops/common/transpose.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// One block of 16 rows; row(r) points to row r's.
template <class F, class Row>
[[gnu::always_inline]] inline void PackBlock(Row&& row, char* out) {
  constexpr int kHead = 2 * F::kNumbers;
  for (int r = 0; r < kGroup; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < F::kNumbers; ++i) {
      std::memcpy(out + 2 * (i * kGroup + r), row(r) + 2 * i, 2);
    }
  }
  out += kHead * kGroup;
#pragma GCC unroll 2
  for (int at = 0; at < F::kBytes - kHead; at += 16) {
#pragma GCC unroll 4
    for (int r = 0; r < kGroup; r += 4) {
      Square<std::int32_t, 16>::Transpose([&](int i) { return row(r + i) + kHead + at; },
                                          out + at * kGroup + r * 4, 64);
    }
  }
}

// `blocks` blocks of each of `rows` <= 16 rows of row_blocks blocks; other rows are zero. Brings as
// many bytes, from `ahead` on, into cache.
template <class F>
[[gnu::noinline]] void PackGroup(const char* weight, std::int64_t rows, std::int64_t row_blocks,
                                 std::int64_t blocks, const char* ahead, char* out) {
  const std::int64_t row_bytes = row_blocks * F::kBytes;
  for (std::int64_t b = 0; b < blocks; ++b, out += kGroupBlockBytes<F>) {
    const char* block = weight + b * F::kBytes;
    if (rows == kGroup) {
#pragma GCC unroll 16
      for (int line = 0; line < kGroupBlockBytes<F>; line += 64) Prefetch(ahead + line);
      ahead += kGroupBlockBytes<F>;
      PackBlock<F>([&](int r) { return block + r * row_bytes; }, out);
    } else {
      char padded[kGroup][F::kBytes] = {};
      for (int r = 0; r < rows; ++r) std::memcpy(padded[r], block + r * row_bytes, F::kBytes);
      PackBlock<F>([&](int r) { return padded[r]; }, out);
    }
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
