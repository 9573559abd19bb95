// SPDX-License-Identifier: Apache-2.0
#include "ops/common/norm/reference.h"

namespace anyop::ops {
namespace {

void RunBackward(const Context&, const Tensor* dy, const Tensor* dsum, const Tensor& sum,
                 const Tensor* weight, double eps, double weight_offset, const Tensor* dx,
                 const Tensor* dresidual, const Tensor* dweight) {
  RmsNormBackwardReference(dy, dsum, sum, weight, eps, weight_offset, dx, dweight);
  RmsNormBackwardReference(dy, dsum, sum, weight, eps, weight_offset, dresidual, nullptr);
}

}  // namespace

extern constinit const Reference add_rms_norm_backward_reference{.op = "add_rms_norm_backward",
                                                                 .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
