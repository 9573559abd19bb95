// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "ops/common/maxima.h"
#include "ops/common/selection.h"
#include "ops/topk_router/scores.h"

namespace anyop::ops {
namespace {

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

}  // namespace
}  // namespace anyop::ops
