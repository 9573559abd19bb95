// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/elementwise.h"

namespace anyop::ops {
namespace {

// dy, y, dx: [d]; dx may be dy.
template <class T>
void SoftmaxBackwardRow(const T* dy, const T* y, T* dx, std::int64_t d, F32 scale) {
  F32 sum[4] = {Zero(), Zero(), Zero(), Zero()};
  ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
    F32 g[block], p[block];
    LoadBlock(g, dy + i, count);
    LoadBlock(p, y + i, count);
    for (int k = 0; k < block; ++k) sum[k] = Fma(g[k], p[k], sum[k]);
  });
  const F32 mean = Set(ReduceAdd((sum[0] + sum[1]) + (sum[2] + sum[3])));
  ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
    F32 g[block], p[block];
    LoadBlock(g, dy + i, count);
    LoadBlock(p, y + i, count);
    for (int k = 0; k < block; ++k) g[k] = scale * p[k] * (g[k] - mean);
    StoreBlock(dx + i, g, count);
  });
}

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& y, float scale,
                 const Tensor* dx) {
  if (!dx) return;
  VisitFloat(y.type(), [&](auto zero) {
    using T = decltype(zero);
    ctx.ForRows(
        y,
        [&](std::int64_t r) {
          SoftmaxBackwardRow(dy.row<const T>(r).data(), y.row<const T>(r).data(),
                             dx->row<T>(r).data(), y.row_size(), Set(scale));
        },
        0.1);
  });
}

}  // namespace
}  // namespace anyop::ops
