// SPDX-License-Identifier: Apache-2.0
// Must not compile: the kernel lacks the result.
#include "anyop/op.h"

namespace anyop::ops {
namespace {
void Run(const Context&, const Tensor&) {}
constexpr Kernel kKernel{.name = "cpu", .run = Bind<&Run>()};
constexpr const Kernel* kKernels[] = {&kKernel};
}  // namespace
constinit const Op op{.signature = "f(x: T[d]) -> (y: T[d]) where T in f32", .kernels = kKernels};
}  // namespace anyop::ops
