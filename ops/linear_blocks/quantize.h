// SPDX-License-Identifier: Apache-2.0
// One block of 32 floats in each format, step by step in f32.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "ops/linear_blocks/format.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// v without its fraction, from low to high; NaN gives low.
inline int TruncateTo(float v, int low, int high) {
  if (!(v > float(low))) return low;
  return v >= float(high) ? high : int(v);
}
inline float InverseOf(float d) { return d == 0 ? 0 : 1 / d; }

inline void WriteNumber(std::uint8_t* block, int i, float v) {
  const F16 number(v);
  std::memcpy(block + 2 * i, &number, 2);
}

inline void QuantizeBlock(const float* x, std::uint8_t* out, Q4_0) {
  float largest = x[0];
  for (int j = 1; j < kBlockElements; ++j) {
    if (std::fabs(x[j]) > std::fabs(largest)) largest = x[j];
  }
  const float d = largest / -8, inverse = InverseOf(d);
  const auto quant = [&](float v) { return TruncateTo(v * inverse + 8.5f, 0, 15); };
  WriteNumber(out, 0, d);
  for (int j = 0; j < 16; ++j) out[2 + j] = std::uint8_t(quant(x[j]) | quant(x[j + 16]) << 4);
}

inline void QuantizeBlock(const float* x, std::uint8_t* out, Q4_1) {
  const auto [low, high] = std::minmax_element(x, x + kBlockElements);
  const float m = *low, d = (*high - m) / 15, inverse = InverseOf(d);
  const auto quant = [&](float v) { return TruncateTo((v - m) * inverse + 0.5f, 0, 15); };
  WriteNumber(out, 0, d);
  WriteNumber(out, 1, m);
  for (int j = 0; j < 16; ++j) out[4 + j] = std::uint8_t(quant(x[j]) | quant(x[j + 16]) << 4);
}

inline void QuantizeBlock(const float* x, std::uint8_t* out, Q8_0) {
  float largest = 0;
  for (int j = 0; j < kBlockElements; ++j) largest = std::max(largest, std::fabs(x[j]));
  const float d = largest / 127, inverse = InverseOf(d);
  WriteNumber(out, 0, d);
  for (int j = 0; j < kBlockElements; ++j) {
    const float v = x[j] * inverse;
    out[2 + j] = std::uint8_t(TruncateTo(v + std::copysign(0.5f, v), -127, 127));
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
