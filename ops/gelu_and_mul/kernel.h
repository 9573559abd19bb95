// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/elementwise.h"
#include "ops/common/gelu.h"

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

}  // namespace
}  // namespace anyop::ops
