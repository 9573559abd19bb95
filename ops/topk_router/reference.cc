// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;

std::vector<double> Probabilities(const Tensor& logits, Index i, std::string_view scoring) {
  std::vector<double> p(std::size_t(logits.dim(1)));
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::size_t j = 0; j < p.size(); ++j) {
    p[j] = Read(logits, i * logits.stride(0) + Index(j));
    largest = std::max(largest, p[j]);
  }
  for (double& v : p) {
    v = scoring == "softmax" ? std::exp(v - largest) : 1 / (1 + std::exp(-v));
    sum += v;
  }
  for (double& v : p) v /= scoring == "softmax" ? sum : 1;
  return p;
}

// Numbers by falling value, NaN last; equals by rising number.
std::vector<Index> Order(const std::vector<double>& values) {
  std::vector<Index> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
    const double x = values[std::size_t(a)], y = values[std::size_t(b)];
    return x > y || (std::isnan(y) && !std::isnan(x));
  });
  return order;
}

void KeepBestGroups(std::vector<double>& c, Index n, Index kept, Index best) {
  const Index size = Index(c.size()) / n;
  std::vector<double> scores;
  for (Index g = 0; g < n; ++g) {
    const std::vector<double> group(c.begin() + g * size, c.begin() + (g + 1) * size);
    const std::vector<Index> order = Order(group);
    double score = 0;
    for (Index a = 0; a < best; ++a) score += group[std::size_t(order[std::size_t(a)])];
    scores.push_back(score);
  }
  const std::vector<Index> order = Order(scores);
  for (Index a = kept; a < n; ++a) {
    const Index g = order[std::size_t(a)];
    std::fill_n(c.begin() + g * size, size, -std::numeric_limits<double>::infinity());
  }
}

void Run(const Context&, const Tensor& logits, Index top, std::string_view scoring,
         bool renormalize, const Tensor* bias, Index num_groups, Index top_groups, Index group_best,
         double scaling, const Tensor& weights, const Tensor& ids) {
  const Index e = logits.dim(1);
  if (group_best == 0) group_best = std::min<Index>(bias ? 2 : 1, e / num_groups);
  for (Index i = 0; i < logits.dim(0); ++i) {
    const std::vector<double> p = Probabilities(logits, i, scoring);
    std::vector<double> c = p;
    for (Index j = 0; bias && j < e; ++j) c[std::size_t(j)] += Read(*bias, j);
    const bool is_nan = scoring == "softmax" && std::isnan(p[0]);
    if (num_groups > 1 && !is_nan) KeepBestGroups(c, num_groups, top_groups, group_best);
    const std::vector<Index> order = Order(c);
    double sum = 1e-20;
    for (Index a = 0; a < top; ++a) sum += p[std::size_t(order[std::size_t(a)])];
    for (Index a = 0; a < top; ++a) {
      const Index id = order[std::size_t(a)];
      *ids.at<std::int32_t>(i, a) = std::int32_t(id);
      *weights.at<double>(i, a) = p[std::size_t(id)] / (renormalize ? sum : 1) * scaling;
    }
  }
}

void RunBackward(const Context&, const Tensor& dweights, const Tensor& logits, const Tensor& ids,
                 std::string_view scoring, bool renormalize, double scaling,
                 const Tensor* dlogits) {
  const Index e = logits.dim(1), top = ids.dim(1);
  for (Index i = 0; dlogits && i < logits.dim(0); ++i) {
    const std::vector<double> p = Probabilities(logits, i, scoring);
    std::vector<double> dp(p.size(), 0);
    const auto id = [&](Index a) { return ReadIndex(ids, i * ids.stride(0) + a); };
    const auto dw = [&](Index a) { return Read(dweights, i * dweights.stride(0) + a); };
    double sum = 1e-20, products = 0, total = 0;
    for (Index a = 0; a < top; ++a) {
      if (id(a) < 0) continue;
      sum += p[std::size_t(id(a))];
      products += dw(a) * p[std::size_t(id(a))];
    }
    for (Index a = 0; a < top; ++a) {
      if (id(a) < 0) continue;
      dp[std::size_t(id(a))] +=
          renormalize ? scaling * (dw(a) - products / sum) / sum : scaling * dw(a);
    }
    for (std::size_t j = 0; j < p.size(); ++j) total += dp[j] * p[j];
    for (Index j = 0; j < e; ++j) {
      const double q = p[std::size_t(j)], d = dp[std::size_t(j)];
      *dlogits->at<double>(i, j) = scoring == "softmax" ? q * (d - total) : d * q * (1 - q);
    }
  }
}

}  // namespace

extern constinit const Reference topk_router_reference{.op = "topk_router", .run = Bind<&Run>()};
extern constinit const Reference topk_router_backward_reference{.op = "topk_router_backward",
                                                                .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
