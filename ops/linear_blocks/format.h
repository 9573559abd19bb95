// SPDX-License-Identifier: Apache-2.0
// The block formats of GGUF: 32 neighbours of a row share one or two f16 numbers.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

#include "anyop/op.h"

namespace anyop::ops {

inline constexpr int kBlockElements = 32;  // elements
inline constexpr int kGroupRows = 16;      // rows that are packed together

// kBytes     of a block in a row
// kNumbers   f16 numbers of a block, d and m, at its start (q6_K: at its end)
// kBits      of a quant. The low 4 of quants j and 16 + j of 32 share a byte, low ones first; the
//            others are aside
// kOffset    an element is d * (quant - kOffset) + m
// kQuants kHigh   where the low bits are in a block, and the bits above them
struct Q4_0 {
  static constexpr int kBytes = 18, kNumbers = 1, kBits = 4, kOffset = 8, kQuants = 2;
};
struct Q4_1 {
  static constexpr int kBytes = 20, kNumbers = 2, kBits = 4, kOffset = 0, kQuants = 4;
};
struct Q5_0 {
  static constexpr int kBytes = 22, kNumbers = 1, kBits = 5, kOffset = 16, kHigh = 2, kQuants = 6;
};
struct Q5_1 {
  static constexpr int kBytes = 24, kNumbers = 2, kBits = 5, kOffset = 0, kHigh = 4, kQuants = 8;
};
struct Q8_0 {
  static constexpr int kBytes = 34, kNumbers = 1, kBits = 8, kOffset = 0, kQuants = 2;
};

// Superblocks: 256 elements, whose d and m are multiplied by small integers for each 16 or 32 of
// them; quants of two parts of 32 share their bytes.
struct Q4_K {
  static constexpr int kBytes = 144, kNumbers = 2, kBits = 4, kOffset = 0, kQuants = 16;
};
struct Q5_K {
  static constexpr int kBytes = 176, kNumbers = 2, kBits = 5, kOffset = 0, kHigh = 16, kQuants = 48;
};
struct Q6_K {
  static constexpr int kBytes = 210, kNumbers = 1, kBits = 6, kOffset = 32, kHigh = 128,
                       kQuants = 0;
};
template <class F>
inline constexpr bool kIsSuperblock = F::kBytes > 100;
inline constexpr int kSuperblockParts = 8;  // of 32 elements
template <class F>
inline constexpr int kElementsOf =
    kIsSuperblock<F> ? kSuperblockParts* kBlockElements : kBlockElements;

// Bytes of 16 packed blocks, one of each row: those of the rows, in another order.
template <class F>
inline constexpr std::int64_t kGroupBlockBytes = kGroupRows* F::kBytes;
// Of 32 elements in any format.
inline constexpr std::int64_t kMostGroupBlockBytes = kGroupBlockBytes<Q8_0>;

inline namespace ANYOP_ISA {

// Calls f with the format of that name, which must be one that numbers are quantized to. By
// letters: comparing words would be a function of the library, which each instruction set would
// have a copy of.
template <class Fn>
inline void VisitQuantizer(std::string_view name, Fn&& f) {
  const char bits = name[1], kind = name[3];
  if (bits == '8') return f(Q8_0{});
  if (kind == '0') return f(Q4_0{});
  f(Q4_1{});
}

// Calls f with the format of that name.
template <class Fn>
inline void VisitFormat(std::string_view name, Fn&& f) {
  const char bits = name[1], kind = name[3];
  if (kind == 'K' && bits == '4') return f(Q4_K{});
  if (kind == 'K' && bits == '5') return f(Q5_K{});
  if (kind == 'K') return f(Q6_K{});
  if (bits == '5' && kind == '0') return f(Q5_0{});
  if (bits == '5') return f(Q5_1{});
  VisitQuantizer(name, f);
}

inline float ReadNumber(const std::uint8_t* block, int i) {
  F16 number;
  std::memcpy(&number, block + 2 * i, 2);
  return float(number);
}

// The 32 elements of a block.
template <class F>
inline void DecodeBlock(const std::uint8_t* block, float* x) {
  const float d = ReadNumber(block, 0);
  const float m = F::kNumbers > 1 ? ReadNumber(block, 1) : 0;
  const std::uint8_t* q = block + 2 * F::kNumbers;
  if constexpr (F::kBits == 8) {
    for (int j = 0; j < kBlockElements; ++j) x[j] = d * float(std::int8_t(q[j]));
  } else {
    for (int j = 0; j < kBlockElements / 2; ++j) {
      const float low = d * float((q[j] & 15) - F::kOffset);
      const float high = d * float((q[j] >> 4) - F::kOffset);
      x[j] = F::kNumbers > 1 ? low + m : low;
      x[j + kBlockElements / 2] = F::kNumbers > 1 ? high + m : high;
    }
  }
}

// Bytes: f16 d (then m), 4 bytes of fifth bits, 16 bytes of fours.
template <int kNumbers>
inline void DecodeFifthBits(const std::uint8_t* block, float* x) {
  constexpr int kOffset = kNumbers == 1 ? 16 : 0;
  const float d = ReadNumber(block, 0), m = kNumbers > 1 ? ReadNumber(block, 1) : -0.0f;
  const std::uint8_t *high = block + 2 * kNumbers, *q = high + 4;
  for (int j = 0; j < kBlockElements; ++j) {
    const int four = j < 16 ? q[j] & 15 : q[j - 16] >> 4;
    const int fifth = high[j / 8] >> j % 8 & 1;
    x[j] = d * float((four | fifth << 4) - kOffset) + m;
  }
}
template <>
inline void DecodeBlock<Q5_0>(const std::uint8_t* block, float* x) {
  DecodeFifthBits<1>(block, x);
}
template <>
inline void DecodeBlock<Q5_1>(const std::uint8_t* block, float* x) {
  DecodeFifthBits<2>(block, x);
}

// Scale and minimum of part p < 8 of a superblock, of 6 bits each, in 12 bytes.
inline void ReadScales(const std::uint8_t* bytes, int p, int& scale, int& minimum) {
  if (p < 4) {
    scale = bytes[p] & 63;
    minimum = bytes[p + 4] & 63;
    return;
  }
  scale = (bytes[p + 4] & 15) | bytes[p - 4] >> 6 << 4;
  minimum = bytes[p + 4] >> 4 | bytes[p] >> 6 << 4;
}

// Bytes: f16 d and m, 12 of scales, 32 of fifth bits where there are any, 128 of fours. Two parts
// of 32 elements share 32 bytes, and part p has bit p of the fifth bits.
inline void DecodeParts(const std::uint8_t* block, bool has_fifth_bits, float* x) {
  const float d = ReadNumber(block, 0), m = ReadNumber(block, 1);
  const std::uint8_t *high = block + 16, *q = high + (has_fifth_bits ? 32 : 0);
  for (int p = 0; p < 8; ++p) {
    int scale, minimum;
    ReadScales(block + 4, p, scale, minimum);
    const float dp = d * float(scale), mp = m * float(minimum);
    for (int j = 0; j < 32; ++j) {
      const int four = p % 2 ? q[p / 2 * 32 + j] >> 4 : q[p / 2 * 32 + j] & 15;
      const int fifth = has_fifth_bits ? high[j] >> p & 1 : 0;
      x[p * 32 + j] = dp * float(four | fifth << 4) - mp;
    }
  }
}
template <>
inline void DecodeBlock<Q4_K>(const std::uint8_t* block, float* x) {
  DecodeParts(block, false, x);
}
template <>
inline void DecodeBlock<Q5_K>(const std::uint8_t* block, float* x) {
  DecodeParts(block, true, x);
}

// Bytes: 128 of fours, 64 of pairs of bits above them, a signed scale for each 16 elements, f16 d.
// Each half has 128 elements: of 32 neighbours, the first two quarters have the low fours.
template <>
inline void DecodeBlock<Q6_K>(const std::uint8_t* block, float* x) {
  const float d = ReadNumber(block + 208, 0);
  for (int group = 0; group < 16; ++group) {  // of elements that share a scale
    const int half = group / 8, quarter = group % 8 / 2, first = group % 2 * 16;
    const std::uint8_t* fours = block + half * 64 + quarter % 2 * 32 + first;
    const std::uint8_t* pairs = block + 128 + half * 32 + first;
    const int four_shift = quarter < 2 ? 0 : 4, pair_shift = 2 * quarter;
    const float scaled = d * float(std::int8_t(block[192 + group]));
    for (int j = 0; j < 16; ++j) {
      const int four = fours[j] >> four_shift & 15, pair = pairs[j] >> pair_shift & 3;
      x[group * 16 + j] = scaled * float((four | pair << 4) - 32);
    }
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
