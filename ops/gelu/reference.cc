// SPDX-License-Identifier: Apache-2.0
#include "ops/common/elementwise/reference_each.h"
#include "ops/common/elementwise/reference_gelu.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, std::string_view kind, const Tensor& y) {
  ReferenceEach(
      y, [&](double v) { return GeluValue(v, kind); }, x);
}

void RunBackward(const Context&, const Tensor& dy, const Tensor& x, std::string_view kind,
                 const Tensor* dx) {
  const auto differentiate = [&](double g, double v) { return g * GeluDerivative(v, kind); };
  if (dx) ReferenceEach(*dx, differentiate, dy, x);
}

}  // namespace

extern constinit const Reference gelu_reference{.op = "gelu", .run = Bind<&Run>()};
extern constinit const Reference gelu_backward_reference{.op = "gelu_backward",
                                                         .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
