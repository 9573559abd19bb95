// SPDX-License-Identifier: Apache-2.0
// Must not compile: a check reads data of a tensor that it takes as a shape, which is not copied to
// the host.
#include "anyop/op.h"

namespace anyop::ops {
namespace {
void Check(const Context&, const TensorShape& x) {
  if (*x.base<float>() < 0) Refuse("x is negative.");
}
}  // namespace
constinit const Op op{.signature = "f(x: T[d]) -> (y: T[d]) where T in f32",
                      .check = Bind<&Check>()};
}  // namespace anyop::ops
