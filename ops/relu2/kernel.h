// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/elementwise.h"

namespace anyop::ops {
namespace {

constexpr double kElementNs = 0.05;

inline void Run(const Context& ctx, const Tensor& x, const Tensor& y) {
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const auto apply = [&](std::int64_t n, std::int64_t ix, std::int64_t iy) {
      const T* from = x.base<const T>() + ix;
      T* to = y.base<T>() + iy;
      ForBlocks<4>(n, [&](std::int64_t i, auto count, auto block) {
        F32 v[block];
        LoadBlock(v, from + i, count);
        for (int k = 0; k < block; ++k) {
          v[k] = Max(Zero(), v[k]);  // NaN is the second operand, and stays
          v[k] = v[k] * v[k];
        }
        StoreBlock(to + i, v, count);
      });
    };
    ForRuns(ctx, kElementNs, apply, x, y);
  });
}

inline void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor* dx) {
  if (!dx) return;
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const auto apply = [&](std::int64_t n, std::int64_t i_dy, std::int64_t ix, std::int64_t i_dx) {
      const T* gradient = dy.base<const T>() + i_dy;
      const T* from = x.base<const T>() + ix;
      T* to = dx->base<T>() + i_dx;
      ForBlocks<4>(n, [&](std::int64_t i, auto count, auto block) {
        F32 v[block], w[block];
        LoadBlock(v, from + i, count);
        LoadBlock(w, gradient + i, count);
        // Doubled last: 2 * x may overflow where the product does not.
        for (int k = 0; k < block; ++k) {
          v[k] = Max(Zero(), v[k]) * w[k];
          v[k] = v[k] + v[k];
        }
        StoreBlock(to + i, v, count);
      });
    };
    ForRuns(ctx, kElementNs, apply, dy, x, *dx);
  });
}

}  // namespace
}  // namespace anyop::ops
