// SPDX-License-Identifier: Apache-2.0
// Attention in double, one row at a time, as the formulas say it. For references only.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "anyop/op.h"

namespace anyop::ops::reference {
namespace {

struct Options {
  std::optional<double> scale;
  bool causal;
  std::int64_t window_left, window_right;
  double softcap;
  const Tensor *slopes, *sinks, *k_scale, *v_scale;
};

struct Row {
  std::int64_t token, head;
  std::int64_t position, keys;  // where the query stands, and the number of keys
};

// An element of row `offset` of a cache; scale [hkv] or null.
inline double ReadScaled(const Tensor& t, std::int64_t offset, const Tensor* scale,
                         std::int64_t head) {
  return Read(t, offset) * (scale ? Read(*scale, head) : 1.0);
}

struct Score {
  std::int64_t key;
  double value, derivative;  // derivative: by the dot product
};

// The scores of the visible keys. key(j): the offset of the row of key j for this head, or -1 for
// none.
template <class Key>
std::vector<Score> VisibleScores(const Options& o, const Row& row, const Tensor& query,
                                 const Tensor& keys, Key key) {
  const std::int64_t dk = query.dim(2), head = row.head / (query.dim(1) / keys.dim(-2));
  const double scale = o.scale ? *o.scale : 1 / std::sqrt(double(dk));
  std::vector<Score> scores;
  for (std::int64_t j = 0; j < row.keys; ++j) {
    const std::int64_t distance = j - row.position;
    if (o.causal && distance > 0) continue;
    if (o.window_left >= 0 && -distance > o.window_left) continue;
    if (o.window_right >= 0 && distance > o.window_right) continue;
    if (key(j) < 0) continue;
    double s = 0, derivative = scale;
    for (std::int64_t e = 0; e < dk; ++e) {
      s += Read(query, row.token * query.stride(0) + row.head * query.stride(1) + e) *
           ReadScaled(keys, key(j) + e, o.k_scale, head);
    }
    s *= scale;
    if (o.softcap > 0) {
      const double capped = std::tanh(s / o.softcap);
      s = o.softcap * capped;
      derivative *= 1 - capped * capped;
    }
    if (o.slopes) s += Read(*o.slopes, row.head) * double(distance);
    scores.push_back({j, s, derivative});
  }
  return scores;
}

// Z = exp(base) * sum, the sink included.
struct Total {
  double base, sum;
  double lse() const { return base + std::log(sum); }
};
inline Total SumScores(const Options& o, const Row& row, const std::vector<Score>& scores) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double sink = o.sinks ? Read(*o.sinks, row.head) : -infinity;
  double most = sink;
  for (const Score& s : scores) most = std::max(most, s.value);
  const double base = most == -infinity ? 0 : most;
  double sum = std::exp(sink - base);
  for (const Score& s : scores) sum += std::exp(s.value - base);
  return {base, sum};
}

// value(j): as key(j).
template <class Key, class Value>
void AttendRow(const Options& o, const Row& row, const Tensor& query, const Tensor& keys,
               const Tensor& values, Key key, Value value, const Tensor& y, const Tensor* lse) {
  const std::int64_t dv = y.dim(2), head = row.head / (query.dim(1) / keys.dim(-2));
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<Score> scores = VisibleScores(o, row, query, keys, key);
  const Total total = SumScores(o, row, scores);
  double* out = y.at<double>(row.token, row.head);
  std::fill(out, out + dv, 0.0);
  bool any = false;  // of no finite score y is 0, whatever the values are
  for (const Score& s : scores) any |= s.value != -infinity;
  for (const Score& s : scores) {
    if (!any) break;
    const double p = std::exp(s.value - total.base) / total.sum;
    for (std::int64_t e = 0; e < dv; ++e) {
      out[e] += p * ReadScaled(values, value(s.key) + e, o.v_scale, head);
    }
  }
  if (lse) *lse->at<double>(row.head, row.token) = total.lse();
}

// A token that belongs to no sequence.
inline void AttendPadding(std::int64_t token, const Tensor& y, const Tensor* lse) {
  for (std::int64_t h = 0; h < y.dim(1); ++h) {
    double* out = y.at<double>(token, h);
    std::fill(out, out + y.dim(2), 0.0);
    if (lse) *lse->at<double>(h, token) = -std::numeric_limits<double>::infinity();
  }
}

}  // namespace
}  // namespace anyop::ops::reference
