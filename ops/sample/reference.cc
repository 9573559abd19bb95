// SPDX-License-Identifier: Apache-2.0
// The five steps one after the other, with a full sort.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Row {
  std::vector<double> l, w;
  std::vector<bool> kept;
  std::size_t first = 0;  // the first of the largest

  explicit Row(const Tensor& logits, std::int64_t r, float temperature) {
    for (std::int64_t j = 0; j < logits.dim(1); ++j) {
      const float x = float(Read(logits, r * logits.stride(0) + j));
      const double value = temperature == 0 ? x : x / temperature;
      l.push_back(std::isnan(value) ? -kInfinity : value);
    }
    first = std::size_t(std::max_element(l.begin(), l.end()) - l.begin());
    for (double value : l) {
      w.push_back(value == l[first] ? 1 : std::exp(value - l[first]));
      kept.push_back(value > -kInfinity);
    }
  }
  template <class F>
  void Drop(F drops) {
    for (std::size_t j = 0; j < l.size(); ++j) kept[j] = kept[j] && !drops(j);
  }
  std::vector<std::size_t> Falling() const {
    std::vector<std::size_t> order;
    for (std::size_t j = 0; j < l.size(); ++j) {
      if (kept[j]) order.push_back(j);
    }
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return l[a] > l[b]; });
    return order;
  }
  void KeepTopK(std::int64_t k) {
    const auto order = Falling();
    if (k <= 0 || std::size_t(k) >= order.size()) return;
    const double least = l[order[std::size_t(k - 1)]];
    Drop([&](std::size_t j) { return l[j] < least; });
  }
  void KeepTopP(double p) {
    const auto order = Falling();
    double whole = 0, before = 0;
    for (std::size_t j : order) whole += w[j];
    for (std::size_t j : order) {
      kept[j] = j == order[0] || before < p * whole;
      before += w[j];
    }
  }
  std::int64_t Draw(double u) const {
    double whole = 0, run = 0;
    for (std::size_t j : Falling()) whole += w[j];
    std::size_t last = first;
    for (std::size_t j = 0; j < l.size(); ++j) {
      if (!kept[j]) continue;
      last = j;
      run += w[j];
      if (run > std::clamp(u, 0.0, 1 - 0x1p-24) * whole) break;
    }
    return std::int64_t(last);
  }
  template <class Noise>
  std::int64_t DrawLargest(Noise noise) const {
    const auto score = [&](std::size_t j) { return w[j] / std::max(noise(j), 0x1p-149); };
    std::size_t best = first;
    for (std::size_t j = 0; j < l.size(); ++j) {
      const bool wins = score(j) > score(best) || (score(j) == score(best) && j < best);
      if (kept[j] && wins) best = j;
    }
    return std::int64_t(best);
  }
};

void Run(const Context&, const Tensor& logits, const Tensor& random, const Tensor* temperature,
         const Tensor* top_k, const Tensor* top_p, const Tensor* min_p, const Tensor& ids) {
  for (std::int64_t r = 0; r < logits.dim(0); ++r) {
    float t = temperature ? float(Read(*temperature, r)) : 1.0f;
    float most = -std::numeric_limits<float>::infinity();
    for (std::int64_t j = 0; j < logits.dim(1); ++j) {
      most = std::max(most, float(Read(logits, r * logits.stride(0) + j)));
    }
    if (std::isfinite(most) && !std::isfinite(most / t)) t = 0;
    Row row(logits, r, t);
    std::int64_t& id = ids.base<std::int64_t>()[r];
    const bool has_any = row.l[row.first] > -kInfinity;
    if (t == 0 || !has_any) {
      id = has_any ? std::int64_t(row.first) : 0;
      continue;
    }
    const double p = min_p ? std::min(Read(*min_p, r), 1.0) : 0;
    if (p > 0) row.Drop([&](std::size_t j) { return row.w[j] < p; });
    if (top_k && ReadIndex(*top_k, r) < logits.dim(1)) row.KeepTopK(ReadIndex(*top_k, r));
    if (top_p && Read(*top_p, r) < 1) row.KeepTopP(Read(*top_p, r));
    const std::int64_t offset = random.rank() == 1 ? r : r * random.stride(0);
    id = random.rank() == 1
             ? row.Draw(Read(random, offset))
             : row.DrawLargest([&](auto j) { return Read(random, offset + std::int64_t(j)); });
  }
}

}  // namespace

extern constinit const Reference sample_reference{.op = "sample", .run = Bind<&Run>()};

}  // namespace anyop::ops
