// SPDX-License-Identifier: Apache-2.0
// topk_router_backward: the gradient of topk_router. The selection and its bias have none.
//
//   dp[ids[i, a]] = scaling * (dweights[i, a] - m) / S     renormalize
//   dp[ids[i, a]] = scaling * dweights[i, a]               else
//   dlogits[i, j] = p[j] * (dp[j] - sum_l dp[l] * p[l])    softmax
//   dlogits[i, j] = dp[j] * p[j] * (1 - p[j])              sigmoid
//
//   w_a = p[ids[i, a]], S = sum_a w_a + 1e-20, m = sum_a dweights[i, a] * w_a / S; dp is 0
//   elsewhere
//
//   ids  as topk_router gave them; -1 has no gradient
//
// Numerics  p in f32, sums over experts in f64, one rounding.
// Source    the derivative of topk_router.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op topk_router_backward{
    .signature =
        "topk_router_backward(dweights: f32[t, top], logits: T[t, e], ids: i32[t, top] below e, "
        "scoring: 'softmax' | 'sigmoid', renormalize: bool, scaling: float) "
        "-> (dlogits: T[t, e]?) where T in f32 | f16 | bf16, top >= 1, top <= e",
    .flops = "20 * size(logits)",
};

}  // namespace anyop::ops
