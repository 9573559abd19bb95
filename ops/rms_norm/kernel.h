// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/elementwise.h"
#include "ops/common/rms_norm.h"

namespace anyop::ops {
namespace {

void Run(const Context& ctx, const Tensor& x, const Tensor* weight, float eps, float weight_offset,
         const Tensor& y) {
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t d = x.row_size();
    const T* w = weight ? weight->base<const T>() : nullptr;  // [d]
    ctx.ForRows(
        x,
        [&](std::int64_t r) {
          const T* xr = x.row<const T>(r).data();  // [d]
          const float sum = SumOfSquares(
              d, [&](auto& v, std::int64_t i, auto count) { LoadBlock(v, xr + i, count); });
          NormalizeRow(xr, w, y.row<T>(r).data(), d, sum, eps, weight_offset);
        },
        0.07);
  });
}

}  // namespace
}  // namespace anyop::ops
