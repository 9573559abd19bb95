// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "ops/common/elementwise/elementwise.h"
#include "ops/common/selection/largest.h"
#include "ops/common/selection/maxima.h"
#include "ops/common/selection/selection.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
namespace {

// The probabilities of a token's experts, for the router and its gradient.

// For each part of the tokens kRows arrays of one float for each expert.
template <int kRows, class N>
constexpr RowsWorkspace<float, N> LayoutOf(N threads, N t, N e) {
  return {Min(t, threads), N(std::int64_t{kRows}) * e};
}
template <int kRows>
constexpr SizeText RouterBytes() {
  return LayoutOf<kRows, SizeText>("threads", "t", "e").bytes();
}

// Calls f(token, scratch) for every token; scratch: kRows arrays of e that nobody else uses
// meanwhile.
template <int kRows, class F>
void ForTokens(const Context& ctx, std::int64_t tokens, std::int64_t e, double token_ns, F&& f) {
  const auto layout = LayoutOf<kRows, std::int64_t>(ThreadsOf(ctx), tokens, e);
  float* rows = Placed(ctx, layout)[layout.rows];
  const std::int64_t parts = std::min<std::int64_t>(ctx.threads, tokens);
  const double part_ns = token_ns * double(tokens) / double(std::max<std::int64_t>(parts, 1)) + 10;
  ctx.ParallelFor(parts, std::int64_t(2000 / part_ns) + 1,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t part = begin; part < end; ++part) {
                      float* scratch = rows + part * layout.row;
                      for (std::int64_t i = part; i < tokens; i += parts) f(i, scratch);
                    }
                  });
}

void Widen(const Tensor& logits, std::int64_t i, float* p) {
  VisitFloat(logits.type(), [&](auto zero) {
    const auto* row = logits.base<const decltype(zero)>() + i * logits.stride(0);
    ForLanes(logits.dim(1), [&](std::int64_t j, auto n) { StoreN(p + j, LoadN(row + j, n), n); });
  });
}

void SigmoidOf(float* p, std::int64_t e) {
  ForBlocks<4>(e, [&](std::int64_t j, auto count, auto block) {
    F32 v[block];
    LoadAll(v, p + j, count);
    SigmoidAll(v);
    StoreAll(p + j, v, count);
  });
}

// NaN in every element where one is NaN or +inf, or all are -inf.
void SoftmaxOf(float* p, std::int64_t e) {
  const F32 m = Set(Largest(p, e));
  F32 sums[4] = {Zero(), Zero(), Zero(), Zero()};
  ForBlocks<4>(e, [&](std::int64_t j, auto count, auto block) {
    F32 x[block], v[block];
    LoadAll(x, p + j, count);
    for (int k = 0; k < block; ++k) v[k] = x[k] - m;
    ExpAll(v);
    for (int k = 0; k < block; ++k) {
      // e^t, t = fl(x - m), times 1 + what the rounding of t lost.
      const F32 t = x[k] - m, b = t - x[k], lost = (x[k] - (t - b)) - (m + b);
      v[k] = Select(t < Set(-110.0f), Zero(), Fma(v[k], lost, v[k]));
      sums[k] += KeepFirst(v[k], count, Zero());
    }
    StoreAll(p + j, v, count);
  });
  const float sum = ReduceAdd((sums[0] + sums[1]) + (sums[2] + sums[3]));
  const F32 inverse = Set(1 / sum);
  ForLanes(e, [&](std::int64_t j, auto n) { StoreN(p + j, LoadN(p + j, n) * inverse, n); });
}

// p[e]: the probabilities of token i.
void Probabilities(const Tensor& logits, std::int64_t i, bool is_softmax, float* p) {
  Widen(logits, i, p);
  is_softmax ? SoftmaxOf(p, logits.dim(1)) : SigmoidOf(p, logits.dim(1));
}

// Keeps a sum of weights that are all 0 from being divided by.
constexpr double kLeastSum = 1e-20;

// How many groups there are, how many stay, and how many experts a group's score adds up.
struct Groups {
  std::int64_t n, kept, best;
};

// The sum of the largest `best` of c[size], falling. keys: size of them, scratch.
float GroupScore(const float* c, std::int64_t size, std::int64_t best, std::uint32_t* keys) {
  std::uint32_t top[2] = {0, 0};
  const std::uint32_t* largest = top;
  for (std::int64_t j = 0; j < size; ++j) {
    keys[j] = OrderedKey(c[j]);
    if (keys[j] > top[0]) {
      top[1] = std::exchange(top[0], keys[j]);
    } else {
      top[1] = std::max(top[1], keys[j]);
    }
  }
  if (best > 2) {
    std::partial_sort(keys, keys + best, keys + size, std::greater<std::uint32_t>());
    largest = keys;
  }
  float score = 0;
  for (std::int64_t a = 0; a < best; ++a) score += FromOrderedKey(largest[a]);
  return score;
}

// c becomes -inf in all groups but the `kept` best. scratch: as long as c.
void KeepBestGroups(float* c, std::int64_t e, Groups groups, float* scratch) {
  const std::int64_t size = e / groups.n;
  // Keys of a group lie behind the scores of those before it.
  std::uint32_t* keys = reinterpret_cast<std::uint32_t*>(scratch);
  for (std::int64_t g = 0; g < groups.n; ++g) {
    const float score = GroupScore(c + g * size, size, groups.best, keys + g);
    keys[g] = OrderedKey(score);
  }
  for (std::int64_t g = 0; g < groups.n; ++g) {
    std::int64_t better = 0;
    for (std::int64_t other = 0; other < groups.n; ++other) {
      better += keys[other] > keys[g] || (keys[other] == keys[g] && other < g);
    }
    if (better >= groups.kept) std::fill_n(c + g * size, size, kMinusInfinity);
  }
}

// The best `top` of c, which is overwritten: by falling value, then -inf, then NaN.
void SelectExperts(float* c, std::int64_t e, std::int64_t top, std::int32_t* ids) {
  const std::int64_t finite = TakeMaxima(c, e, top, ids);
  std::int64_t taken = finite;
  for (const bool is_nan : {false, true}) {
    for (std::int64_t j = 0; j < e && taken < top; ++j) {
      if (is_nan ? c[j] == c[j] : c[j] != kMinusInfinity) continue;
      if (std::find(ids, ids + finite, j) == ids + finite) ids[taken++] = std::int32_t(j);
    }
  }
}

void Weigh(const float* p, const std::int32_t* ids, std::int64_t top, bool renormalize,
           float scaling, float* weights) {
  double sum = kLeastSum;
  for (std::int64_t a = 0; a < top; ++a) sum += double(p[ids[a]]);
  const double factor = renormalize ? double(scaling) / sum : double(scaling);
  for (std::int64_t a = 0; a < top; ++a) weights[a] = float(double(p[ids[a]]) * factor);
}

void Run(const Context& ctx, const Tensor& logits, std::int64_t top, std::string_view scoring,
         bool renormalize, const Tensor* bias, std::int64_t num_groups, std::int64_t top_groups,
         std::int64_t group_best, float scaling, const Tensor& weights, const Tensor& ids) {
  const std::int64_t e = logits.dim(1);
  const bool is_softmax = scoring == "softmax";
  if (group_best == 0) group_best = std::min<std::int64_t>(bias ? 2 : 1, e / num_groups);
  const Groups groups{num_groups, top_groups, group_best};
  ForTokens<3>(ctx, logits.dim(0), e, 2.0 * double(e), [&](std::int64_t i, float* p) {
    float* c = p + e;
    std::int32_t* chosen = ids.at<std::int32_t>(i);
    Probabilities(logits, i, is_softmax, p);
    if (is_softmax && p[0] != p[0]) {  // then all are NaN
      for (std::int64_t a = 0; a < top; ++a) chosen[a] = std::int32_t(a);
    } else {
      const float* more = bias ? bias->base<const float>() : nullptr;
      ForLanes(e, [&](std::int64_t j, auto n) {
        const F32 v = LoadN(p + j, n);
        StoreN(c + j, more ? v + LoadN(more + j, n) : v, n);
      });
      if (num_groups > 1) KeepBestGroups(c, e, groups, c + e);
      SelectExperts(c, e, top, chosen);
    }
    Weigh(p, chosen, top, renormalize, scaling, weights.at<float>(i));
  });
}

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

ANYOP_KERNEL(topk_router){.workspace = kWorkspace<&RouterBytes<3>>, .run = Bind<&Run>()};
ANYOP_KERNEL(topk_router_backward){.workspace = kWorkspace<&RouterBytes<2>>,
                                   .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
