// SPDX-License-Identifier: Apache-2.0
// Mean and standard deviation of a row, in f32 lanes: the mean first, then squares of differences.
#pragma once
#include <cmath>

#include "anyop/simd.h"
#include "ops/common/row_unit.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Of x * unit: the row itself, or a multiple whose squares f32 can hold.
struct Moments {
  float mean, scale;  // scale: 1 / sqrt(mean of (x - mean)^2 + eps)
  float unit = 1;

  // (x - mean) * scale of the row's elements.
  [[gnu::always_inline]] F32 Normalize(F32 x) const {
    return Fma(x, Set(unit), Set(-mean)) * Set(scale);
  }
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

// load as in SumOf.
template <class F>
[[gnu::always_inline]] inline float MeanOf(std::int64_t d, F&& load) {
  return SumOf(d, load) / float(d);
}
template <class F>
[[gnu::always_inline]] inline float MeanSquareOf(std::int64_t d, float mean, F&& load) {
  const F32 center = Set(mean);
  return SumOf(
             d,
             [&](auto& v, std::int64_t i, auto count) __attribute__((always_inline)) {
               load(v, i, count);
               for (F32& one : v) {
                 one = KeepFirst(one - center, count, Zero());
                 one = one * one;
               }
             }) /
         float(d);
}

// Of a row that has another unit than 1.
template <class T>
[[gnu::noinline]] Moments MomentsInUnits(const T* x, std::int64_t d, float eps, float unit) {
  const auto load = [&](auto& v, std::int64_t i, auto count) {
    LoadBlock(v, x + i, count);
    for (F32& one : v) one *= Set(unit);
  };
  const float mean = MeanOf(d, load);
  return {mean, ScaleInUnits(MeanSquareOf(d, mean, load), eps, unit), unit};
}

template <class T>
[[gnu::always_inline]] inline Moments MomentsOf(const T* x, std::int64_t d, float eps) {
  const auto load = [&](auto& v, std::int64_t i, auto count) __attribute__((always_inline)) {
    LoadBlock(v, x + i, count);
  };
  const float mean = MeanOf(d, load);
  const float variance = MeanSquareOf(d, mean, load) + eps;
  const float unit = UnitOf(variance);
  if (unit != 1) [[unlikely]]
    return MomentsInUnits(x, d, eps, unit);
  return {mean, 1 / std::sqrt(variance)};
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
