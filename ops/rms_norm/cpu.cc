// SPDX-License-Identifier: Apache-2.0
#include "ops/common/norm/rms_norm_backward.h"
#include "ops/rms_norm/kernel.h"

namespace anyop::ops {
namespace {

constexpr SizeText BackwardBytes() { return RowSumsWorkspace<SizeText>("rows(x)", "d").bytes(); }

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor* weight,
                 float eps, float weight_offset, const Tensor* dx, const Tensor* dweight) {
  const NormTensors tensors{dy, x, weight, nullptr, dx, nullptr, dweight};
  VisitFloat(x.type(),
             [&](auto zero) { RmsNormBackward<decltype(zero)>(ctx, tensors, eps, weight_offset); });
}

}  // namespace

ANYOP_KERNEL(rms_norm){.run = Bind<&Run>()};
ANYOP_KERNEL(rms_norm_backward){.workspace = kWorkspace<&BackwardBytes>,
                                .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
