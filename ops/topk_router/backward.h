// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/topk_router/scores.h"

namespace anyop::ops {
namespace {

// dp[e] = the gradient of the probabilities, of those chosen alone. Returns sum dp * p.
double ScatterWeights(const float* dweights, const float* p, const std::int32_t* ids,
                      std::int64_t top, std::int64_t e, bool renormalize, double scaling,
                      float* dp) {
  double sum = kLeastSum, products = 0;
  for (std::int64_t a = 0; a < top; ++a) {
    if (ids[a] < 0) continue;
    sum += double(p[ids[a]]);
    products += double(dweights[a]) * double(p[ids[a]]);
  }
  const double factor = renormalize ? scaling / sum : scaling;
  const double mean = renormalize ? products / sum : 0;
  std::fill_n(dp, e, 0.0f);
  for (std::int64_t a = 0; a < top; ++a) {
    if (ids[a] >= 0) dp[ids[a]] += float(factor * (double(dweights[a]) - mean));
  }
  double total = 0;
  for (std::int64_t j = 0; j < e; ++j) total += double(dp[j]) * double(p[j]);
  return total;
}

void RunBackward(const Context& ctx, const Tensor& dweights, const Tensor& logits,
                 const Tensor& ids, std::string_view scoring, bool renormalize, float scaling,
                 const Tensor* dlogits) {
  if (!dlogits) return;
  const std::int64_t e = logits.dim(1), top = ids.dim(1);
  const bool is_softmax = scoring == "softmax";
  ForTokens<2>(ctx, logits.dim(0), e, 2.0 * double(e), [&](std::int64_t i, float* p) {
    float* dp = p + e;
    Probabilities(logits, i, is_softmax, p);
    const double total =
        ScatterWeights(dweights.at<const float>(i), p, ids.at<const std::int32_t>(i), top, e,
                       renormalize, double(scaling), dp);
    VisitFloat(logits.type(), [&](auto zero) {
      auto* to = dlogits->base<decltype(zero)>() + i * dlogits->stride(0);
      const F32 mean = Set(float(total)), one = Set(1.0f);
      ForLanes(e, [&](std::int64_t j, auto n) {
        const F32 q = LoadN(p + j, n), d = LoadN(dp + j, n);
        StoreN(to + j, q * (is_softmax ? d - mean : d * (one - q)), n);
      });
    });
  });
}

}  // namespace
}  // namespace anyop::ops
