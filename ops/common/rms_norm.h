// SPDX-License-Identifier: Apache-2.0
// Root-mean-square normalization of one row, in f32 lanes.
#pragma once
#include <cmath>
#include <type_traits>

#include "anyop/simd.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// The squares of a row of d elements, summed in an order that depends on d alone. load(v, i, count)
// fills the vectors v with the elements from i on, and 0 in lanes beyond count.
template <class F>
[[gnu::always_inline]] inline float SumOfSquares(std::int64_t d, F&& load) {
  F32 sum[4] = {Zero(), Zero(), Zero(), Zero()};
  ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
    F32 v[block];
    load(v, i, count);
    for (int k = 0; k < block; ++k) sum[k] = Fma(v[k], v[k], sum[k]);
  });
  return ReduceAdd((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// y[i] = x[i] * s * (weight[i] + weight_offset), s = 1 / sqrt(sum_of_squares / d + eps); without
// weight the last factor is 1. y may be x.
template <class T>
[[gnu::always_inline]] inline void NormalizeRow(const T* x, const T* weight, T* y, std::int64_t d,
                                                float sum_of_squares, float eps,
                                                float weight_offset) {
  const F32 s = Set(1 / std::sqrt(sum_of_squares / float(d) + eps)), offset = Set(weight_offset);
  if (!weight) {
    ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
      F32 v[block];
      LoadBlock(v, x + i, count);
      for (int k = 0; k < block; ++k) v[k] *= s;
      StoreBlock(y + i, v, count);
    });
    return;
  }
  ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
    F32 v[block], gain[block];
    LoadBlock(v, x + i, count);
    LoadBlock(gain, weight + i, count);
    for (int k = 0; k < block; ++k) v[k] = v[k] * s * (gain[k] + offset);
    StoreBlock(y + i, v, count);
  });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
