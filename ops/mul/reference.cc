// SPDX-License-Identifier: Apache-2.0
#include "ops/common/reference_binary.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor& y, const Tensor& z) {
  ReferenceBinary(x, y, z, [](auto a, auto b) { return a * b; });
}

}  // namespace

extern constinit const Reference mul_reference{.op = "mul", .run = Bind<&Run>()};

}  // namespace anyop::ops
