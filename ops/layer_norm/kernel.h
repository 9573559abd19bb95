// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/elementwise.h"
#include "ops/layer_norm/moments.h"

namespace anyop::ops {
namespace {

// y = (x - mean) * scale * weight + bias, [d] each; a null weight is 1, a null bias 0. y may be x.
template <class T>
void WriteRow(const T* x, const T* weight, const T* bias, T* y, std::int64_t d,
              const Moments& moments) {
  ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
    F32 v[block], gain[block], shift[block];
    LoadBlock(v, x + i, count);
    for (int k = 0; k < block; ++k) {
      v[k] = moments.Normalize(v[k]);
      gain[k] = Set(1.0f);
      shift[k] = Zero();
    }
    if (weight) LoadBlock(gain, weight + i, count);
    if (bias) LoadBlock(shift, bias + i, count);
    for (int k = 0; k < block; ++k) v[k] = Fma(v[k], gain[k], shift[k]);
    StoreBlock(y + i, v, count);
  });
}

void Run(const Context& ctx, const Tensor& x, const Tensor* weight, const Tensor* bias, float eps,
         const Tensor& y) {
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t d = x.row_size();
    const T* w = weight ? weight->base<const T>() : nullptr;  // [d]
    const T* b = bias ? bias->base<const T>() : nullptr;      // [d]
    ctx.ForRows(
        x,
        [&](std::int64_t r) {
          const T* xr = x.row<const T>(r).data();  // [d]
          WriteRow(xr, w, b, y.row<T>(r).data(), d, MomentsOf(xr, d, eps));
        },
        0.1);
  });
}

}  // namespace
}  // namespace anyop::ops
