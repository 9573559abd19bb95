// SPDX-License-Identifier: Apache-2.0
#include "ops/common/elementwise/each_float.h"

namespace anyop::ops {
namespace {

void Run(const Context& ctx, const Tensor& x, const Tensor& y) {
  ForEachFloat(
      ctx, 0.3, y, [](auto zero, auto& v) { SigmoidAll<decltype(zero)>(v); }, x);
}

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& y, const Tensor* dx) {
  if (!dx) return;
  const auto differentiate = [](auto, auto& g, const auto& s) {
    for (std::size_t k = 0; k < std::size(g); ++k) g[k] = g[k] * s[k] * (Set(1.0f) - s[k]);
  };
  ForEachFloat(ctx, 0.1, *dx, differentiate, dy, y);
}

}  // namespace

ANYOP_KERNEL(sigmoid){.run = Bind<&Run>()};
ANYOP_KERNEL(sigmoid_backward){.run = Bind<&RunBackward>()};

}  // namespace anyop::ops
