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

// kBytes     of a block in a row: kNumbers f16 numbers (d, then m), then the quants
// kBits      of a quant; 4-bit quants j and 16 + j share byte j, low bits first
// kOffset    an element is d * (quant - kOffset) + m
struct Q4_0 {
  static constexpr int kBytes = 18, kNumbers = 1, kBits = 4, kOffset = 8;
};
struct Q4_1 {
  static constexpr int kBytes = 20, kNumbers = 2, kBits = 4, kOffset = 0;
};
struct Q8_0 {
  static constexpr int kBytes = 34, kNumbers = 1, kBits = 8, kOffset = 0;
};

// Bytes of 16 packed blocks, one of each row: numbers first.
template <class F>
inline constexpr std::int64_t kGroupBlockBytes = kGroupRows* F::kBytes;
inline constexpr std::int64_t kMostGroupBlockBytes = kGroupBlockBytes<Q8_0>;  // of any format

inline namespace ANYOP_ISA {

// Calls f with the format of that name.
template <class Fn>
inline void VisitFormat(std::string_view name, Fn&& f) {
  if (name == "q4_0") return f(Q4_0{});
  if (name == "q4_1") return f(Q4_1{});
  f(Q8_0{});
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

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
