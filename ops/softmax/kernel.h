// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <limits>

#include "ops/common/elementwise.h"

namespace anyop::ops {
namespace {

constexpr std::int64_t kHeld = 2048;  // exponentials of a row that are kept; others are recomputed

template <class T>
class Row {
 public:
  Row(const T* x, float scale) : x_(x), scale_(Set(scale)) {}

  // Makes Exponentials relative to the largest element. NaN need not be found: it reaches the sum.
  void FindMaximum(std::int64_t d) {
    const F32 lowest = Set(-std::numeric_limits<float>::infinity());
    F32 m[4] = {lowest, lowest, lowest, lowest};
    ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
      F32 v[block];
      LoadAll(v, x_ + i, count);
      for (int k = 0; k < block; ++k) {
        m[k] = Max(m[k], KeepFirst(v[k] * scale_, count, lowest));
      }
    });
    minus_maximum_ = Set(-ReduceMax(Max(Max(m[0], m[1]), Max(m[2], m[3]))));
  }
  template <int N, class Count>
  void Exponentials(F32 (&e)[N], std::int64_t i, Count count) const {
    LoadAll(e, x_ + i, count);
    for (int k = 0; k < N; ++k) e[k] = Fma(e[k], scale_, minus_maximum_);
    ExpAll<T>(e);
  }

 private:
  const T* x_;
  F32 scale_, minus_maximum_;
};

// x, y: [d]. y may be x: it is written only after the last read of the same element.
template <class T>
void SoftmaxRow(const T* x, T* y, std::int64_t d, float scale) {
  constexpr bool kHoldInResult = std::is_same_v<T, float>;
  alignas(64) float buffer[kHoldInResult ? 1 : kHeld];
  const std::int64_t held = kHoldInResult ? d : std::min(d, kHeld);
  float* kept = buffer;
  if constexpr (kHoldInResult) kept = y;

  Row<T> row(x, scale);
  row.FindMaximum(d);
  F32 sum[4] = {Zero(), Zero(), Zero(), Zero()};
  ForBlocks<4>(held, [&](std::int64_t i, auto count, auto block) {
    F32 e[block];
    row.Exponentials(e, i, count);
    StoreAll(kept + i, e, count);
    for (int k = 0; k < block; ++k) sum[k] += KeepFirst(e[k], count, Zero());
  });
  ForBlocks<4>(d - held, [&](std::int64_t i, auto count, auto block) {
    F32 e[block];
    row.Exponentials(e, held + i, count);
    for (int k = 0; k < block; ++k) sum[k] += KeepFirst(e[k], count, Zero());
  });
  const F32 inverse = Set(1 / ReduceAdd((sum[0] + sum[1]) + (sum[2] + sum[3])));
  ForBlocks<4>(held, [&](std::int64_t i, auto count, auto block) {
    F32 e[block];
    LoadAll(e, kept + i, count);
    for (int k = 0; k < block; ++k) e[k] *= inverse;
    StoreAll(y + i, e, count);
  });
  ForBlocks<4>(d - held, [&](std::int64_t i, auto count, auto block) {
    F32 e[block];
    row.Exponentials(e, held + i, count);
    for (int k = 0; k < block; ++k) e[k] *= inverse;
    StoreAll(y + held + i, e, count);
  });
}

void Run(const Context& ctx, const Tensor& x, float scale, const Tensor& y) {
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    ctx.ForRows(x, [&](std::int64_t r) {
      SoftmaxRow(x.row<const T>(r).data(), y.row<T>(r).data(), x.row_size(), scale);
    });
  });
}

}  // namespace
}  // namespace anyop::ops
