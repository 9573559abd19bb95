// SPDX-License-Identifier: Apache-2.0
// Must compile: what the others would be without their defect.
#include "anyop/op.h"

namespace anyop::ops {
namespace {
void Run(const Context&, const Tensor&, const Tensor&) {}
void Check(const Context&, const TensorShape& x) {
  if (x.dim(0) == 1) Refuse("x has one element.");
}
constexpr Kernel kKernel{.name = "cpu", .run = Bind<&Run>()};
constexpr const Kernel* kKernels[] = {&kKernel};
}  // namespace
constinit const Op op{.signature = "f(x: T[d]) -> (y: T[d]) where T in f32",
                      .kernels = kKernels,
                      .check = Bind<&Check>()};
}  // namespace anyop::ops
