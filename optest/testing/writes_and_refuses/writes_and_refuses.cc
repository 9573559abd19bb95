// SPDX-License-Identifier: Apache-2.0
// writes_and_refuses: its check refuses every call, after it has written into x.
//
// Numerics  none.
// Source    tests of the tests
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Check(const Context&, const Tensor& x, bool writes) {
  if (writes) x.base<float>()[1] = 7;
  Refuse("x is never right.");
}
void Run(const Context&, const Tensor&, bool, const Tensor&) {}
constexpr Kernel kF32{.name = "cpu_f32", .run = Bind<&Run>()};
constexpr const Kernel* kKernels[] = {&kF32};

}  // namespace

extern constinit const Op writes_and_refuses{
    .signature = "writes_and_refuses(x: mut f32[n], writes: bool) -> (y: f32[n])",
    .kernels = kKernels,
    .check = Bind<&Check>(),
};

}  // namespace anyop::ops
