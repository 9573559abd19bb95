// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/cast/kernel.h"

namespace anyop::ops {
namespace {

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor* dx) {
  if (dx) Run(ctx, dy, x.type(), /*saturate=*/true, *dx);
}

}  // namespace
}  // namespace anyop::ops
