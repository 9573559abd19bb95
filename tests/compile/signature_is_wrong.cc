// SPDX-License-Identifier: Apache-2.0
// Must not compile: the result's size is bound by nothing.
#include "anyop/op.h"

namespace anyop::ops {
constinit const Op op{.signature = "f(x: T[d]) -> (y: T[e]) where T in f32"};
}  // namespace anyop::ops
