// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/swiglu.h"

namespace anyop::ops {
namespace {

void Run(const Context& ctx, const Tensor& x, std::optional<float> limit, double alpha, double beta,
         std::string_view order, const Tensor& y) {
  const Swiglu swiglu(limit, alpha, beta);
  const std::int64_t d = y.row_size();
  VisitOrder(x.type(), order, [&](auto zero, auto constant) {
    using T = decltype(zero);
    constexpr Order kOrder = constant();
    ctx.ForRows(
        y,
        [&](std::int64_t r) {
          const GateAndUp<const T, kOrder> from{x.base<const T>() + x.row_offset(r), d};
          T* out = y.base<T>() + y.row_offset(r);  // [d]
          ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
            F32 g[block], u[block], s[block], lost[block];
            from.Load(g, u, i, count);
            for (int k = 0; k < block; ++k) {
              g[k] = swiglu.Gate(g[k]);
              s[k] = swiglu.Argument(g[k], &lost[k]);
            }
            SigmoidAll<T>(s);
            for (int k = 0; k < block; ++k) {
              s[k] = Fma(s[k] * (Set(1.0f) - s[k]), lost[k], s[k]);
              s[k] = s[k] * g[k] * (swiglu.Up(u[k]) + swiglu.beta);
            }
            StoreBeside<kOrder>(out + i, s, count);
          });
        },
        0.3);
  });
}

}  // namespace
}  // namespace anyop::ops
