// SPDX-License-Identifier: Apache-2.0
// Rows of x as blocks of 32 bytes with a scale each.
#pragma once
#include <bit>
#include <cstdint>

#include "anyop/simd/bytes.h"
#include "ops/common/quantize/lanes.h"
#include "ops/linear_blocks/format.h"

namespace anyop::ops {

// x[j] is about d * q[j].
struct QuantizedBlock {
  std::int8_t q[kBlockElements];
  float d;
  std::int32_t sum;        // of q
  float d_sum;             // d * sum
  std::int32_t first_sum;  // of the first 16
};
static_assert(sizeof(QuantizedBlock) == 48);

inline namespace ANYOP_ISA {

// v rounded half away from zero, -127 to 127; NaN gives 0.
[[gnu::always_inline]] inline lanes8::I32 RoundToBytes(F32 v) {
  v = Select(IsNan(v), Zero(), v);
  v += Select(v < Zero(), Set(-0.5f), Set(0.5f));
  v = Max(Min(v, Set(127)), Set(-127));
  return __builtin_convertvector(std::bit_cast<lanes8::V>(v), lanes8::I32);
}

// Block b goes to out[b * stride].
template <class T>
inline void QuantizeRow(const T* x, std::int64_t blocks, QuantizedBlock* out, std::int64_t stride) {
  constexpr int kVectors = kBlockElements / kLanes;
  for (std::int64_t b = 0; b < blocks; ++b, x += kBlockElements, out += stride) {
    F32 v[kVectors], largest = Zero();
#pragma GCC unroll 8
    for (int i = 0; i < kVectors; ++i) {
      v[i] = Load(x + i * kLanes);
      largest = Max(Abs(v[i]), largest);  // skips NaN
    }
    const float d = ReduceMax(largest) / 127.0f, inverse = d != 0 ? 1.0f / d : 0.0f;
    lanes8::I32 sums[2] = {};
#pragma GCC unroll 8
    for (int i = 0; i < kVectors; ++i) {
      const lanes8::I32 q = RoundToBytes(v[i] * Set(inverse));
      lanes8::StoreLowBytes(out->q + i * kLanes, q, kFull);
      sums[2 * i / kVectors] += q;
    }
    const auto sum_of = [](lanes8::I32 a) [[gnu::always_inline]] {
      return std::int32_t(ReduceAdd(ToF32(std::bit_cast<I32>(a))));
    };
    out->d = d;
    out->first_sum = sum_of(sums[0]);
    out->sum = sum_of(sums[0] + sums[1]);
    out->d_sum = d * float(out->sum);
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
