// SPDX-License-Identifier: Apache-2.0
// topk_router: the experts of each token in a mixture of experts, and their weights.
//
//   p   = softmax(logits[i]) or sigma(logits[i])
//   c   = p + bias; -inf outside of the top_groups best groups
//   ids[i, :]     = the `top` experts whose c is largest, by falling c
//   weights[i, a] = scaling * p[ids[i, a]]     divided by the sum of those p if renormalize
//
//   bias         moves the selection, not the weights
//   num_groups   runs of experts of one size; 1: no groups
//   top_groups   how many groups stay; a group's score is the sum of its group_best largest c
//   group_best   0 stands for 2 with a bias, for 1 without
//   renormalize  divides by the sum of the chosen p, plus 1e-20
//
// Numerics  p and c in f32. Of equals, groups too, the lower number comes first; NaN ranks below
//           -inf, where an expert of a group that was left out stands. softmax makes a row with NaN
//           or +inf NaN: ids 0 ... top - 1, weights NaN.
// Source    DeepSeek-V3, arXiv:2412.19437; vLLM 0.27.1, topk_softmax and grouped_topk.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op topk_router{
    .signature =
        "topk_router(logits: T[t, e], top: int, scoring: 'softmax' | 'sigmoid' = 'softmax', "
        "renormalize: bool = False, bias: f32[e]?, num_groups: int = 1, top_groups: int = 1, "
        "group_best: int = 0, scaling: float = 1.0) -> (weights: f32[t, top], ids: i32[t, top]) "
        "where T in f32 | f16 | bf16, top >= 1, num_groups >= 1, top_groups >= 1, "
        "top_groups <= num_groups, e % num_groups == 0, top <= e / num_groups * top_groups, "
        "group_best >= 0, group_best <= e / num_groups",
    .gradient = "topk_router_backward",
    .flops = "20 * size(logits)",
};

}  // namespace anyop::ops
