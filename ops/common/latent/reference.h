// SPDX-License-Identifier: Apache-2.0
// Attention over latents in double, one head of one token at a time. For references only.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "anyop/op.h"
#include "ops/common/blocks/block_table.h"

namespace anyop::ops::reference {
namespace {

struct Latents {
  const Tensor &q_nope, &q_rope, &kv_cache, &rope_cache;
  double scale;
  const Tensor* sinks;
  const Tensor& y;
  const Tensor* lse;
};

inline double Dot(const Tensor& q, std::int64_t token, std::int64_t head, const Tensor& cache,
                  const KeyPlace& key) {
  double sum = 0;
  for (std::int64_t e = 0; e < q.dim(2); ++e) {
    sum += Read(q, token * q.stride(0) + head * q.stride(1) + e) *
           Read(cache, key.block * cache.stride(0) + key.offset * cache.stride(1) + e);
  }
  return sum;
}

inline void AttendHead(const Latents& a, std::int64_t token, std::int64_t head,
                       const std::vector<KeyPlace>& keys) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double sink = a.sinks ? Read(*a.sinks, head) : -infinity;
  double most = sink;
  bool any = false;
  std::vector<double> scores;
  for (const KeyPlace& key : keys) {
    scores.push_back(a.scale * (Dot(a.q_nope, token, head, a.kv_cache, key) +
                                Dot(a.q_rope, token, head, a.rope_cache, key)));
    most = std::max(most, scores.back());
    any |= scores.back() != -infinity;
  }
  const double base = most == -infinity ? 0 : most;
  double total = std::exp(sink - base);
  for (const double s : scores) total += std::exp(s - base);
  double* y = a.y.at<double>(token, head);
  std::fill_n(y, a.y.dim(2), 0.0);
  for (std::size_t j = 0; j < keys.size() && any; ++j) {
    const double p = std::exp(scores[j] - base) / total;
    const std::int64_t row =
        keys[j].block * a.kv_cache.stride(0) + keys[j].offset * a.kv_cache.stride(1);
    for (std::int64_t e = 0; e < a.y.dim(2); ++e) y[e] += p * Read(a.kv_cache, row + e);
  }
  if (a.lse) *a.lse->at<double>(head, token) = base + std::log(total);
}

}  // namespace
}  // namespace anyop::ops::reference
