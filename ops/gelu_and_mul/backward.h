// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/elementwise.h"
#include "ops/common/gelu.h"

namespace anyop::ops {
namespace {

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
            slope[k] = w[k] * u[k] * slope[k];
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
}  // namespace anyop::ops
