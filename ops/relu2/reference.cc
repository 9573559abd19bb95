// SPDX-License-Identifier: Apache-2.0
#include "ops/common/elementwise/reference_each.h"

#include <cmath>

namespace anyop::ops {
namespace {

double Positive(double x) { return std::isnan(x) ? x : x > 0 ? x : 0.0; }

void Run(const Context&, const Tensor& x, const Tensor& y) {
  ReferenceEach(
      y, [](double v) { return Positive(v) * Positive(v); }, x);
}

void RunBackward(const Context&, const Tensor& dy, const Tensor& x, const Tensor* dx) {
  if (dx)
    ReferenceEach(
        *dx, [](double g, double v) { return g * 2 * Positive(v); }, dy, x);
}

}  // namespace

extern constinit const Reference relu2_reference{.op = "relu2", .run = Bind<&Run>()};
extern constinit const Reference relu2_backward_reference{.op = "relu2_backward",
                                                          .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
