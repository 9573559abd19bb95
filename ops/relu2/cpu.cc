// SPDX-License-Identifier: Apache-2.0
#include "ops/common/elementwise/each_float.h"

namespace anyop::ops {
namespace {

constexpr double kElementNs = 0.05;

void Run(const Context& ctx, const Tensor& x, const Tensor& y) {
  const auto square = [](auto, auto& v) {
    for (F32& e : v) {
      e = Max(Zero(), e);  // NaN is the second operand, and stays
      e = e * e;
    }
  };
  ForEachFloat(ctx, kElementNs, y, square, x);
}

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor* dx) {
  if (!dx) return;
  const auto differentiate = [](auto, auto& v, const auto& g) {
    // Doubled last: 2 * x may overflow where the product does not.
    for (std::size_t k = 0; k < std::size(v); ++k) {
      v[k] = Max(Zero(), v[k]) * g[k];
      v[k] = v[k] + v[k];
    }
  };
  ForEachFloat(ctx, kElementNs, *dx, differentiate, x, dy);
}

}  // namespace

ANYOP_KERNEL(relu2){.run = Bind<&Run>()};
ANYOP_KERNEL(relu2_backward){.run = Bind<&RunBackward>()};

}  // namespace anyop::ops
