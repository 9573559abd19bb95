// SPDX-License-Identifier: Apache-2.0
// Rows of x as blocks of 32 bytes with a scale each.
#pragma once
#include <cmath>
#include <cstdint>

#include "anyop/simd.h"
#include "linear_blocks/format.h"

namespace anyop::ops {

// x[j] is about d * q[j].
struct QuantizedBlock {
  std::int8_t q[kBlock];
  float d;
  std::int32_t sum;  // of q
  float d_sum;       // d * sum
  std::int32_t unused;
};
static_assert(sizeof(QuantizedBlock) == 48);

inline namespace ANYOP_ISA {

// v rounded, half away from zero; NaN gives 0.
inline std::int8_t RoundToByte(float v) {
  v = v == v ? v : 0;
  v = v + std::copysign(0.5f, v);
  v = v < 127 ? v : 127;
  v = v > -127 ? v : -127;
  return std::int8_t(std::int32_t(v));
}

// Block b goes to out[b * stride].
template <class T>
inline void QuantizeRow(const T* x, std::int64_t blocks, QuantizedBlock* out, std::int64_t stride) {
  for (std::int64_t b = 0; b < blocks; ++b, x += kBlock, out += stride) {
    float values[kBlock];
    F32 largest = Zero();
#pragma GCC unroll 8
    for (int j = 0; j < kBlock; j += kLanes) {
      const F32 v = Load(x + j);
      largest = Max(Abs(v), largest);  // skips NaN
      Store(values + j, v);
    }
    const float d = ReduceMax(largest) / 127.0f, inverse = d != 0 ? 1.0f / d : 0.0f;
    std::int32_t sum = 0;
    for (int j = 0; j < kBlock; ++j) {
      const std::int8_t q = RoundToByte(values[j] * inverse);
      out->q[j] = q;
      sum += q;
    }
    out->d = d;
    out->sum = sum;
    out->d_sum = d * float(sum);
    out->unused = 0;
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
