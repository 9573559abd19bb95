// SPDX-License-Identifier: Apache-2.0
#include "ops/common/elementwise/elementwise.h"
#include "ops/common/elementwise/gelu.h"

namespace anyop::ops {
namespace {

template <class T, Gelu kKind>
void MultiplyRows(const Context& ctx, const Tensor& x, const Tensor& y) {
  const std::int64_t d = y.row_size();
  ctx.ForRows(
      y,
      [&](std::int64_t r) {
        const T* gate = x.base<const T>() + x.row_offset(r);  // [d]
        const T* up = gate + d;                               // [d]
        T* out = y.base<T>() + y.row_offset(r);               // [d]
        ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
          F32 v[block], u[block];
          LoadBlock(v, gate + i, count);
          LoadBlock(u, up + i, count);
          GeluAll<kKind, T>(v);
          for (int k = 0; k < block; ++k) v[k] = v[k] * u[k];
          StoreBlock(out + i, v, count);
        });
      },
      0.4);
}

void Run(const Context& ctx, const Tensor& x, std::string_view approximate, const Tensor& y) {
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    if (approximate == "tanh") return MultiplyRows<T, Gelu::kTanh>(ctx, x, y);
    MultiplyRows<T, Gelu::kErf>(ctx, x, y);
  });
}

template <class T, Gelu kKind>
void DifferentiateRows(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& dx) {
  const std::int64_t d = dy.row_size();
  ctx.ForRows(
      dy,
      [&](std::int64_t r) {
        const T* gradient = dy.row<const T>(r).data();  // [d]
        const T* gate = x.row<const T>(r).data();       // [d]
        const T* up = gate + d;                         // [d]
        T* to_gate = dx.row<T>(r).data();               // [d]
        T* to_up = to_gate + d;                         // [d]
        ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
          F32 value[block], slope[block], u[block], w[block];
          LoadBlock(value, gate + i, count);
          LoadBlock(u, up + i, count);
          LoadBlock(w, gradient + i, count);
          for (int k = 0; k < block; ++k) slope[k] = value[k];
          GeluAll<kKind, T>(value);
          GeluDerivativeAll<kKind, T>(slope);
          for (int k = 0; k < block; ++k) {
            slope[k] = slope[k] * w[k] * u[k];  // a slope of 0 stays 0 where w u overflows
            value[k] = w[k] * value[k];
          }
          StoreBlock(to_gate + i, slope, count);
          StoreBlock(to_up + i, value, count);
        });
      },
      0.9);
}

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& x,
                 std::string_view approximate, const Tensor* dx) {
  if (!dx) return;
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    if (approximate == "tanh") return DifferentiateRows<T, Gelu::kTanh>(ctx, dy, x, *dx);
    DifferentiateRows<T, Gelu::kErf>(ctx, dy, x, *dx);
  });
}

}  // namespace

ANYOP_KERNEL(gelu_and_mul){.run = Bind<&Run>()};
ANYOP_KERNEL(gelu_and_mul_backward){.run = Bind<&RunBackward>()};

}  // namespace anyop::ops
