// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/elementwise/elementwise.h"

namespace anyop::ops {
namespace {

void Run(const Context& ctx, const Tensor& x, const Tensor& y, const Tensor& z) {
  RunBinary(ctx, x, y, z, [](auto a, auto b) { return a * b; });
}

}  // namespace
}  // namespace anyop::ops
