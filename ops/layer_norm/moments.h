// SPDX-License-Identifier: Apache-2.0
// Mean and standard deviation of a row, in f32 lanes: the mean first, then squares of differences.
#pragma once
#include <cmath>

#include "anyop/simd.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

struct Moments {
  float mean, scale;  // scale: 1 / sqrt(mean of (x - mean)^2 + eps)
};

// The sum of the vectors that load(v, i, count) fills with the elements from i on, and 0 beyond.
template <class F>
[[gnu::always_inline]] inline float SumOf(std::int64_t d, F&& load) {
  F32 sum[4] = {Zero(), Zero(), Zero(), Zero()};
  ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
    F32 v[block];
    load(v, i, count);
    for (int k = 0; k < block; ++k) sum[k] += v[k];
  });
  return ReduceAdd((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

template <class T>
[[gnu::always_inline]] inline Moments MomentsOf(const T* x, std::int64_t d, float eps) {
  const float mean = SumOf(
                         d, [&](auto& v, std::int64_t i, auto count)
                                __attribute__((always_inline)) { LoadBlock(v, x + i, count); }) /
                     float(d);
  const F32 center = Set(mean);
  const float squares = SumOf(
      d, [&](auto& v, std::int64_t i, auto count) __attribute__((always_inline)) {
        LoadBlock(v, x + i, count);
        for (F32& one : v) {
          one = KeepFirst(one - center, count, Zero());
          one = one * one;
        }
      });
  return {mean, 1 / std::sqrt(squares / float(d) + eps)};
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
