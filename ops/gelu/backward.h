// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/elementwise.h"
#include "ops/common/gelu.h"

namespace anyop::ops {
namespace {

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& x, std::string_view kind,
                 const Tensor* dx) {
  if (!dx) return;
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    VisitGelu(ParseGelu(kind), [&](auto constant) {
      const auto apply = [&](std::int64_t n, std::int64_t i_dy, std::int64_t ix,
                             std::int64_t i_dx) {
        const T* gradient = dy.base<const T>() + i_dy;
        const T* from = x.base<const T>() + ix;
        T* to = dx->base<T>() + i_dx;
        ForBlocks<4>(n, [&](std::int64_t i, auto count, auto block) {
          F32 v[block], w[block];
          LoadBlock(v, from + i, count);
          LoadBlock(w, gradient + i, count);
          GeluDerivativeAll<constant(), T>(v);
          for (int k = 0; k < block; ++k) v[k] = v[k] * w[k];
          StoreBlock(to + i, v, count);
        });
      };
      ForRuns(ctx, 0.5, apply, dy, x, *dx);
    });
  });
}

}  // namespace
}  // namespace anyop::ops
