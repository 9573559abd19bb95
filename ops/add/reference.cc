// SPDX-License-Identifier: Apache-2.0
#include "ops/common/elementwise/reference_binary.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor& y, const Tensor& z) {
  ReferenceBinary(x, y, z, [](auto a, auto b) { return a + b; });
}

void RunBackward(const Context&, const Tensor& dz, const Tensor& y, const Tensor* dx,
                 const Tensor* dy) {
  ReferenceBinaryBackward(dz, dz, y, dx, dy, [](double g, double) { return g; });
}

}  // namespace

extern constinit const Reference add_reference{.op = "add", .run = Bind<&Run>()};
extern constinit const Reference add_backward_reference{.op = "add_backward",
                                                        .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
