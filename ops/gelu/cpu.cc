// SPDX-License-Identifier: Apache-2.0
#include "ops/common/elementwise/each_float.h"
#include "ops/common/elementwise/gelu.h"

namespace anyop::ops {
namespace {

void Run(const Context& ctx, const Tensor& x, std::string_view kind, const Tensor& y) {
  VisitGelu(ParseGelu(kind), [&](auto constant) {
    const auto gelu = [&](auto zero, auto& v) { GeluAll<constant(), decltype(zero)>(v); };
    ForEachFloat(ctx, 0.4, y, gelu, x);
  });
}

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& x, std::string_view kind,
                 const Tensor* dx) {
  if (!dx) return;
  VisitGelu(ParseGelu(kind), [&](auto constant) {
    const auto differentiate = [&](auto zero, auto& v, const auto& g) {
      GeluDerivativeAll<constant(), decltype(zero)>(v);
      for (std::size_t k = 0; k < std::size(v); ++k) v[k] = v[k] * g[k];
    };
    ForEachFloat(ctx, 0.5, *dx, differentiate, x, dy);
  });
}

}  // namespace

ANYOP_KERNEL(gelu){.run = Bind<&Run>()};
ANYOP_KERNEL(gelu_backward){.run = Bind<&RunBackward>()};

}  // namespace anyop::ops
