// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/elementwise.h"

namespace anyop::ops {
namespace {

void Run(const Context& ctx, const Tensor& x, const Tensor& y) {
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t d = y.row_size();
    ctx.ForRows(
        y,
        [&](std::int64_t r) {
          const T* gate = x.base<const T>() + x.row_offset(r);  // [d]
          const T* up = gate + d;                               // [d]
          T* out = y.base<T>() + y.row_offset(r);               // [d]
          ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
            F32 g[block], u[block], v[block];
            LoadBlock(g, gate + i, count);
            LoadBlock(u, up + i, count);
            for (int k = 0; k < block; ++k) v[k] = g[k];
            SigmoidAll<T>(v);
            for (int k = 0; k < block; ++k) v[k] = v[k] * g[k] * u[k];
            StoreBlock(out + i, v, count);
          });
        },
        0.2);
  });
}

}  // namespace
}  // namespace anyop::ops
