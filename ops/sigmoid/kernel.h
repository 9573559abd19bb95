// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/elementwise.h"

namespace anyop::ops {
namespace {

void Run(const Context& ctx, const Tensor& x, const Tensor& y) {
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const auto apply = [&](std::int64_t n, std::int64_t ix, std::int64_t iy) {
      const T* a = x.base<const T>() + ix;
      T* b = y.base<T>() + iy;
      ForBlocks<4>(n, [&](std::int64_t i, auto count, auto block) {
        F32 v[block];
        LoadBlock(v, a + i, count);
        SigmoidAll<T>(v);
        StoreBlock(b + i, v, count);
      });
    };
    ForRuns(ctx, 0.3, apply, x, y);
  });
}

}  // namespace
}  // namespace anyop::ops
