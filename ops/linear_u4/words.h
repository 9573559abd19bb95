// SPDX-License-Identifier: Apache-2.0
// Words: the elements of one l in 16 rows of a weight, 8 bytes, as pack_u4 says.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "anyop/simd.h"
#include "ops/common/transpose.h"

namespace anyop::ops {

inline constexpr int kWordRows = 16;  // rows of a block: their elements of one l are a word
inline constexpr int kWordBytes = 8;

inline namespace ANYOP_ISA {

// A weight whose words are packed.
struct PackedWords {
  const std::uint8_t* packed;  // [blocks][k][8]
  std::int64_t k;

  const std::uint8_t* Of(std::int64_t a, std::int64_t first, std::int64_t, std::uint8_t*) const {
    return packed + (a * k + first) * kWordBytes;
  }
  // Words of elements order[0, count).
  void Gather(std::int64_t a, const std::int32_t* order, std::int64_t count,
              std::uint8_t* out) const {
    const std::uint8_t* from = packed + a * k * kWordBytes;
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(out + i * kWordBytes, from + order[i] * kWordBytes, kWordBytes);
    }
  }
};

// A weight as rows: words are made when they are asked for.
struct RowsOfWords {
  const std::uint8_t* weight;  // [n][bytes]
  std::int64_t bytes;          // of a row
  std::int64_t n;

  const std::uint8_t* Of(std::int64_t a, std::int64_t first, std::int64_t count,
                         std::uint8_t* out) const {
    Pack(a, first, count, out);
    return out;
  }

  // Words of elements [first, first + count) of rows 16a to 16a + 15; both are even.
  [[gnu::noinline]] void Pack(std::int64_t a, std::int64_t first, std::int64_t count,
                              std::uint8_t* out) const {
    using Block = Square<std::int8_t, 16>;
    const std::int64_t rows = std::min<std::int64_t>(n - a * kWordRows, kWordRows);
    const std::uint8_t* from = weight + a * kWordRows * bytes + first / 2;
    std::int64_t i = 0;
    for (; rows == kWordRows && i + 16 <= count / 2; i += 16) {
      alignas(16) char columns[16][16];  // a byte of each row
      Block::Transpose(reinterpret_cast<const char*>(from + i), bytes, columns[0], 16);
      for (int c = 0; c < 16; ++c) PairRows(columns[c], out + (i + c) * 2 * kWordBytes);
    }
    for (; i < count / 2; ++i) {
      char column[16] = {};
      for (std::int64_t r = 0; r < rows; ++r) std::memcpy(column + r, from + r * bytes + i, 1);
      PairRows(column, out + i * 2 * kWordBytes);
    }
  }

  void Gather(std::int64_t a, const std::int32_t* order, std::int64_t count,
              std::uint8_t* out) const {
    const std::int64_t rows = std::min<std::int64_t>(n - a * kWordRows, kWordRows);
    for (std::int64_t i = 0; i < count; ++i, out += kWordBytes) {
      const std::uint8_t* from = weight + a * kWordRows * bytes + order[i] / 2;
      const int shift = order[i] % 2 * 4;
      std::memset(out, 0, kWordBytes);
      for (std::int64_t r = 0; r < rows; ++r) {
        out[r / 2] |= std::uint8_t((from[r * bytes] >> shift & 15) << r % 2 * 4);
      }
    }
  }

 private:
  // Two words of a byte of each of 16 rows: of its low and of its high bits.
  [[gnu::always_inline]] static void PairRows(const char* column, std::uint8_t* out) {
    typedef std::uint16_t Pairs [[gnu::vector_size(16)]];
    typedef std::uint8_t Bytes [[gnu::vector_size(8)]];
    Pairs v;  // rows 2b and 2b + 1
    std::memcpy(&v, column, 16);
    const Pairs low = (v & 0x0f) | (v >> 4 & 0xf0), high = (v >> 4 & 0x0f) | (v >> 8 & 0xf0);
    const Bytes words[2] = {__builtin_convertvector(low, Bytes),
                            __builtin_convertvector(high, Bytes)};
    std::memcpy(out, words, 2 * kWordBytes);
  }
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
