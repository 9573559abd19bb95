// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/elementwise/elementwise.h"
#include "ops/common/norm/rms_norm.h"

namespace anyop::ops {
namespace {

void Run(const Context& ctx, const Tensor& x, const Tensor* weight, float eps, float weight_offset,
         const Tensor& y) {
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t d = x.row_size();
    const Gain<T> gain{weight ? weight->base<const T>() : nullptr, Set(weight_offset)};
    const bool streams = Streams(ctx, 2 * x.size() * std::int64_t(sizeof(T))) && !SameMemory(x, y);
    NormalizeRows(ctx, x, gain, eps, streams, 0.07,
                  [&](std::int64_t r, const T*& xr, T*& yr, float& squares) {
                    xr = x.row<const T>(r).data();  // [d]
                    yr = y.row<T>(r).data();        // [d]
                    squares = SumOfSquares(d, [&](auto& v, std::int64_t i, auto count) {
                      LoadBlock(v, xr + i, count);
                    });
                  });
  });
}

}  // namespace
}  // namespace anyop::ops
