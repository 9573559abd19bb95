// SPDX-License-Identifier: Apache-2.0
#include "ops/mul/kernel.h"

#include "ops/common/elementwise/binary_backward.h"

namespace anyop::ops {
namespace {

void RunBackward(const Context& ctx, const Tensor& dz, const Tensor& x, const Tensor& y,
                 const Tensor* dx, const Tensor* dy) {
  const auto multiply = [](F32 gradient, F32 other) { return gradient * other; };
  VisitFloat(dz.type(), [&](auto zero) {
    BinaryBackward<decltype(zero)>(ctx, dz, x, y, dx, dy, multiply, multiply);
  });
}

}  // namespace

ANYOP_KERNEL(mul){.run = Bind<&Run>()};
ANYOP_KERNEL(mul_backward){.workspace = kWorkspace<&BinaryBackwardBytes>,
                           .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
