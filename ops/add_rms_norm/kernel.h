// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/elementwise/elementwise.h"
#include "ops/common/norm/rms_norm.h"

namespace anyop::ops {
namespace {

// v = x + residual
template <int N, class T, class Count>
void Add(F32 (&v)[N], const T* x, const T* residual, Count count) {
  F32 r[N];
  LoadBlock(v, x, count);
  LoadBlock(r, residual, count);
  for (int k = 0; k < N; ++k) v[k] += r[k];
}

void Run(const Context& ctx, const Tensor& x, const Tensor& residual, const Tensor* weight,
         float eps, float weight_offset, const Tensor& y, const Tensor& sum) {
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t d = x.row_size();
    const Gain<T> gain{weight ? weight->base<const T>() : nullptr, Set(weight_offset)};
    const bool streams = Streams(ctx, 4 * x.size() * std::int64_t(sizeof(T))) &&
                         !SameMemory(x, y) && !SameMemory(residual, y);
    NormalizeRows(ctx, x, gain, eps, streams, 0.12,
                  [&](std::int64_t r, const T*& total, T*& yr, float& squares) {
                    const T* xr = x.row<const T>(r).data();         // [d]
                    const T* rr = residual.row<const T>(r).data();  // [d]
                    T* to = sum.row<T>(r).data();                   // [d]
                    // Squares are taken of the sum as it is stored: after its rounding.
                    squares = SumOfSquares(d, [&](auto& v, std::int64_t i, auto count) {
                      Add(v, xr + i, rr + i, count);
                      StoreBlock(to + i, v, count);
                      if constexpr (!std::is_same_v<T, float>) LoadBlock(v, to + i, count);
                    });
                    total = to;
                    yr = y.row<T>(r).data();  // [d]
                  });
  });
}

}  // namespace
}  // namespace anyop::ops
