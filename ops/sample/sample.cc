// SPDX-License-Identifier: Apache-2.0
// sample: draws one token per row of logits.
//
//   1. l = logits / temperature, w_j = exp(l_j - max l); temperature 0, or so small that the
//      quotient of a finite largest logit overflows: the answer is argmax
//   2. min_p > 0: w_j < min_p are dropped
//   3. 0 < top_k < v: l_j below the top_k-th largest are dropped; its equals all stay
//   4. top_p < 1: in falling order of l, ties by rising j, j stays while the sum of w before it is
//      below top_p * (sum of all left); the first always stays
//   5. random of rank 1: the lowest j left whose running sum of w over rising j exceeds
//      random * (sum of all left); rank 2: the j left with the largest w_j / random[j], the lower
//      of equals
//
//   random       per row uniform in [0, 1), or per token exponentially distributed; clamped
//   temperature  absent: 1; at least 0 (check mode refuses others)
//   top_k, top_p, min_p  absent, or out of the range named above: no such step; top_p <= 0 leaves
//                the first only
//
// Numerics  In f32, w within 2 ulp, sums of w in f64. NaN counts as -inf; -inf is never drawn; of
//           +inf all are drawn alike, and nothing else. A row with nothing above -inf gives 0, at
//           temperature 0 too. Logits of bf16 are often equal: at the edge of top_p the lower token
//           stays, where vLLM's sort may keep another, so that the same random number may draw
//           another token.
// Source    arXiv:1904.09751 (top-p), 2407.01082 (min-p); vLLM 0.27.1.
#include "anyop/op.h"

#include "ops/common/check_data.h"

namespace anyop::ops {

namespace {

void CheckTemperature(const Context&, const Tensor&, const Tensor&, const Tensor* temperature,
                      const Tensor*, const Tensor*, const Tensor*) {
  if (!temperature) return;
  CheckElements(
      "temperature", *temperature, [](double t) { return !(t < 0); },
      "at least 0, because a logit divided by it would rank the other way round");
}

}  // namespace

extern constinit const Op sample{
    .signature =
        "sample(logits: T[b, v], random: f32[b], temperature: f32[b]?, top_k: i32[b]?, "
        "top_p: f32[b]?, min_p: f32[b]?) -> (ids: i64[b]) where T in f32 | f16 | bf16, v >= 1\n"
        "sample(logits: T[b, v], random: f32[b, v], temperature: f32[b]?, top_k: i32[b]?, "
        "top_p: f32[b]?, min_p: f32[b]?) -> (ids: i64[b]) where T in f32 | f16 | bf16, v >= 1",
    .flops = "10 * size(logits)",
    .check_data = Bind<&CheckTemperature>(),
};

}  // namespace anyop::ops
