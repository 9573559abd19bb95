// SPDX-License-Identifier: Apache-2.0
// Must not compile: a check takes the parameters, not the results.
#include "anyop/op.h"

namespace anyop::ops {
namespace {
void Check(const Context&, const Tensor&, const Tensor&) {}
}  // namespace
constinit const Op op{.signature = "f(x: T[d]) -> (y: T[d]) where T in f32",
                      .check = Bind<&Check>()};
}  // namespace anyop::ops
