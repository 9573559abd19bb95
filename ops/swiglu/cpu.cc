// SPDX-License-Identifier: Apache-2.0
#include "ops/common/elementwise/swiglu.h"

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

// g, u and w (of dy) become the gradients of the gate and, in u, of the up projection.
template <class T, int N>
[[gnu::always_inline]] inline void Differentiate(const Swiglu& swiglu, F32 (&g)[N], F32 (&u)[N],
                                                 const F32 (&w)[N]) {
  F32 z[N], lost[N], s[N], rest[N];
  Mask gate_passes[N], up_passes[N];
  for (int k = 0; k < N; ++k) {
    gate_passes[k] = g[k] <= swiglu.limit;
    up_passes[k] = Abs(u[k]) <= swiglu.limit;
    g[k] = swiglu.Gate(g[k]);
    u[k] = swiglu.Up(u[k]) + swiglu.beta;
    z[k] = swiglu.Argument(g[k], &lost[k]);
  }
  SigmoidAndRest<T>(z, s, rest);
  for (int k = 0; k < N; ++k) {
    const F32 more = s[k] * rest[k] * lost[k];
    s[k] = (s[k] + more) * w[k];
    u[k] = s[k] * u[k] * Fma(z[k], rest[k] - more, Set(1.0f));
    s[k] = s[k] * g[k];
    g[k] = swiglu.has_limit ? Select(gate_passes[k], u[k], Zero()) : u[k];
    u[k] = swiglu.has_limit ? Select(up_passes[k], s[k], Zero()) : s[k];
  }
}

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& x, std::optional<float> limit,
                 double alpha, double beta, std::string_view order, const Tensor* dx) {
  if (!dx) return;
  const Swiglu swiglu(limit, alpha, beta);
  const std::int64_t d = dy.row_size();
  VisitOrder(x.type(), order, [&](auto zero, auto constant) {
    using T = decltype(zero);
    constexpr Order kOrder = constant();
    ctx.ForRows(
        dy,
        [&](std::int64_t r) {
          const GateAndUp<const T, kOrder> from{x.base<const T>() + x.row_offset(r), d};
          const GateAndUp<T, kOrder> to{dx->base<T>() + dx->row_offset(r), d};
          const T* gradient = dy.base<const T>() + dy.row_offset(r);  // [d]
          ForBlocks<2>(d, [&](std::int64_t i, auto count, auto block) {
            F32 g[block], u[block], w[block];
            from.Load(g, u, i, count);
            LoadBeside<kOrder>(w, gradient + i, count);
            Differentiate<T>(swiglu, g, u, w);
            to.Store(g, u, i, count);
          });
        },
        0.5);
  });
}

}  // namespace

ANYOP_KERNEL(swiglu){.run = Bind<&Run>()};
ANYOP_KERNEL(swiglu_backward){.run = Bind<&RunBackward>()};

}  // namespace anyop::ops
