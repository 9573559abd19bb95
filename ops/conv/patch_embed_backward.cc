// SPDX-License-Identifier: Apache-2.0
// patch_embed_backward: the gradients of patch_embed.
//
//   dx[n, c, Y*kh + a, X*kw + b] = sum over o of dy[n, q, o] * weight[o, c, a, b]
//   dweight[o, c, a, b] = sum over n, q of dy[n, q, o] * x[n, c, Y*kh + a, X*kw + b]
//   dbias[o] = sum over n, q of dy[n, q, o]
//
// dx is 0 in a remainder that no patch has.
//
// Numerics  Products and sums in f32 for every T, one rounding on the store. The order of a sum
//           does not depend on threads or on other images.
//           Sums for dbias are in f64.
// Source    definition.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op patch_embed_backward{
    .signature =
        "patch_embed_backward(dy: T[n, q, co], x: T[n, ci, h, w], weight: T[co, ci, kh, "
        "kw]) -> (dx: T[n, ci, h, w]?, dweight: T[co, ci, kh, kw]?, dbias: T[co]?) where T "
        "in f32 | f16 | bf16, kh >= 1, kw >= 1, q == h/kh * (w/kw)\n"
        "patch_embed_backward(dy: T[n, q, co], x: T[n, ci, s, h, w], weight: T[co, ci, ks, "
        "kh, kw]) -> (dx: T[n, ci, s, h, w]?, dweight: T[co, ci, ks, kh, kw]?, dbias: "
        "T[co]?) where T in f32 | f16 | bf16, ks >= 1, kh >= 1, kw >= 1, q == s/ks * "
        "(h/kh) * (w/kw)",
    .flops = "4 * rows(dy) * size(weight)",
};

}  // namespace anyop::ops
