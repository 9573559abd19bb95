// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/elementwise.h"

namespace anyop::ops {
namespace {

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& y, const Tensor* dx) {
  if (!dx) return;
  VisitFloat(y.type(), [&](auto zero) {
    using T = decltype(zero);
    const auto apply = [&](std::int64_t n, std::int64_t i_dy, std::int64_t i_y, std::int64_t i_dx) {
      const T* a = dy.base<const T>() + i_dy;
      const T* b = y.base<const T>() + i_y;
      T* to = dx->base<T>() + i_dx;
      ForBlocks<4>(n, [&](std::int64_t i, auto count, auto block) {
        F32 g[block], s[block];
        LoadBlock(g, a + i, count);
        LoadBlock(s, b + i, count);
        for (int k = 0; k < block; ++k) g[k] = g[k] * s[k] * (Set(1.0f) - s[k]);
        StoreBlock(to + i, g, count);
      });
    };
    ForRuns(ctx, sizeof(T) * 0.03, apply, dy, y, *dx);
  });
}

}  // namespace
}  // namespace anyop::ops
