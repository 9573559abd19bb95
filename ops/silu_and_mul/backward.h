// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/elementwise.h"
#include "ops/common/sigmoid_and_rest.h"

namespace anyop::ops {
namespace {

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor* dx) {
  if (!dx) return;
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t d = dy.row_size();
    ctx.ForRows(
        dy,
        [&](std::int64_t r) {
          const T* gradient = dy.row<const T>(r).data();  // [d]
          const T* gate = x.row<const T>(r).data();       // [d]
          const T* up = gate + d;                         // [d]
          T* to_gate = dx->row<T>(r).data();              // [d]
          T* to_up = to_gate + d;                         // [d]
          ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
            F32 g[block], u[block], w[block], s[block], t[block];
            LoadBlock(g, gate + i, count);
            LoadBlock(u, up + i, count);
            LoadBlock(w, gradient + i, count);
            SigmoidAndRest<T>(g, s, t);
            for (int k = 0; k < block; ++k) {
              s[k] = s[k] * w[k];
              u[k] = s[k] * u[k] * Fma(g[k], t[k], Set(1.0f));
              s[k] = s[k] * g[k];
            }
            StoreBlock(to_gate + i, u, count);
            StoreBlock(to_up + i, s, count);
          });
        },
        0.3);
  });
}

}  // namespace
}  // namespace anyop::ops
