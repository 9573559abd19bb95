// SPDX-License-Identifier: Apache-2.0
#include "ops/common/elementwise/reference_binary.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor& y, const Tensor& z) {
  ReferenceBinary(x, y, z, [](auto a, auto b) { return a * b; });
}

void RunBackward(const Context&, const Tensor& dz, const Tensor& x, const Tensor& y,
                 const Tensor* dx, const Tensor* dy) {
  ReferenceBinaryBackward(dz, x, y, dx, dy, [](double g, double other) { return g * other; });
}

}  // namespace

extern constinit const Reference mul_reference{.op = "mul", .run = Bind<&Run>()};
extern constinit const Reference mul_backward_reference{.op = "mul_backward",
                                                        .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
