// SPDX-License-Identifier: Apache-2.0
#include "ops/common/elementwise/reference_each.h"

#include <cmath>

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor& y) {
  ReferenceEach(
      y, [](double v) { return 1 / (1 + std::exp(-v)); }, x);
}

void RunBackward(const Context&, const Tensor& dy, const Tensor& y, const Tensor* dx) {
  if (dx)
    ReferenceEach(
        *dx, [](double g, double s) { return g * s * (1 - s); }, dy, y);
}

}  // namespace

extern constinit const Reference sigmoid_reference{.op = "sigmoid", .run = Bind<&Run>()};
extern constinit const Reference sigmoid_backward_reference{.op = "sigmoid_backward",
                                                            .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
