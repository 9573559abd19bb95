// SPDX-License-Identifier: Apache-2.0
#include "ops/common/elementwise/elementwise.h"
#include "ops/common/elementwise/sigmoid_and_rest.h"

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

ANYOP_KERNEL(silu_and_mul){.run = Bind<&Run>()};
ANYOP_KERNEL(silu_and_mul_backward){.run = Bind<&RunBackward>()};

}  // namespace anyop::ops
