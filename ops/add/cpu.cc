// SPDX-License-Identifier: Apache-2.0
#include "ops/add/kernel.h"

#include "ops/common/elementwise/binary_backward.h"

namespace anyop::ops {
namespace {

void RunBackward(const Context& ctx, const Tensor& dz, const Tensor& y, const Tensor* dx,
                 const Tensor* dy) {
  const auto pass = [](F32 gradient, F32) { return gradient; };
  VisitFloat(dz.type(), [&](auto zero) {
    BinaryBackward<decltype(zero)>(ctx, dz, dz, y, dx, dy, pass, pass);
  });
}

}  // namespace

ANYOP_KERNEL(add){.run = Bind<&Run>()};
ANYOP_KERNEL(add_backward){.workspace = kWorkspace<&BinaryBackwardBytes>,
                           .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
