// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/elementwise.h"
#include "ops/common/gelu.h"

namespace anyop::ops {
namespace {

void Run(const Context& ctx, const Tensor& x, std::string_view kind, const Tensor& y) {
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    VisitGelu(ParseGelu(kind), [&](auto constant) {
      const auto apply = [&](std::int64_t n, std::int64_t ix, std::int64_t iy) {
        const T* from = x.base<const T>() + ix;
        T* to = y.base<T>() + iy;
        ForBlocks<4>(n, [&](std::int64_t i, auto count, auto block) {
          F32 v[block];
          LoadBlock(v, from + i, count);
          GeluAll<constant(), T>(v);
          StoreBlock(to + i, v, count);
        });
      };
      ForRuns(ctx, 0.4, apply, x, y);
    });
  });
}

}  // namespace
}  // namespace anyop::ops
