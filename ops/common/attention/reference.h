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

// key(j), value(j): the offset of the row of key j for this head, or -1 for none.
template <class Key, class Value>
void AttendRow(const Options& o, const Row& row, const Tensor& query, const Tensor& keys,
               const Tensor& values, Key key, Value value, const Tensor& y, const Tensor* lse) {
  const std::int64_t dk = query.dim(2), dv = y.dim(2);
  const std::int64_t head = row.head / (query.dim(1) / keys.dim(-2));
  const double scale = o.scale ? *o.scale : 1 / std::sqrt(double(dk));
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<std::pair<std::int64_t, double>> scores;  // visible keys
  double largest = -infinity;
  for (std::int64_t j = 0; j < row.keys; ++j) {
    const std::int64_t distance = j - row.position;
    if (o.causal && distance > 0) continue;
    if (o.window_left >= 0 && -distance > o.window_left) continue;
    if (o.window_right >= 0 && distance > o.window_right) continue;
    if (key(j) < 0) continue;
    double s = 0;
    for (std::int64_t e = 0; e < dk; ++e) {
      s += Read(query, row.token * query.stride(0) + row.head * query.stride(1) + e) *
           ReadScaled(keys, key(j) + e, o.k_scale, head);
    }
    s *= scale;
    if (o.softcap > 0) s = o.softcap * std::tanh(s / o.softcap);
    if (o.slopes) s += Read(*o.slopes, row.head) * double(distance);
    scores.emplace_back(j, s);
    largest = std::max(largest, s);
  }
  const double sink = o.sinks ? Read(*o.sinks, row.head) : -infinity;
  const double most = std::max(largest, sink), base = most == -infinity ? 0 : most;
  double sum = std::exp(sink - base);
  for (const auto& [j, s] : scores) sum += std::exp(s - base);
  double* out = y.at<double>(row.token, row.head);
  std::fill(out, out + dv, 0.0);
  bool any = false;
  for (const auto& [j, s] : scores) any |= s != -infinity;
  for (const auto& [j, s] : scores) {
    if (!any) break;
    const double p = std::exp(s - base) / sum;
    for (std::int64_t e = 0; e < dv; ++e) {
      out[e] += p * ReadScaled(values, value(j) + e, o.v_scale, head);
    }
  }
  if (lse) *lse->at<double>(row.head, row.token) = base + std::log(sum);
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
