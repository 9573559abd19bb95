// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& query, const Tensor& weights, const Tensor& key_cache,
         const Tensor& block_table, const Tensor& seq_lens, const Tensor& query_start_loc,
         std::int64_t top, bool causal, const Tensor* query_scale, const Tensor* key_scale,
         const Tensor& indices, const Tensor& counts) {
  const std::int64_t bs = key_cache.dim(1);
  struct Scored {
    std::int64_t position;
    double score;
  };
  const auto score = [&](std::int64_t token, std::int64_t block, std::int64_t offset) {
    double sum = 0;
    for (std::int64_t h = 0; h < query.dim(1); ++h) {
      double dot = 0;
      for (std::int64_t e = 0; e < query.dim(2); ++e) {
        dot += Read(query, token * query.stride(0) + h * query.stride(1) + e) *
               Read(key_cache, block * key_cache.stride(0) + offset * key_cache.stride(1) + e);
      }
      const double scale =
          query_scale ? Read(*query_scale, token * query_scale->stride(0) + h) : 1.0;
      const double positive = dot < 0 ? 0 : dot;  // NaN for NaN
      sum += Read(weights, token * weights.stride(0) + h) * scale * positive;
    }
    return sum * (key_scale ? Read(*key_scale, block * key_scale->stride(0) + offset) : 1.0);
  };
  std::int64_t sequence = 0;
  for (std::int64_t token = 0; token < query.dim(0); ++token) {
    while (sequence < seq_lens.dim(0) && ReadIndex(query_start_loc, sequence + 1) <= token) {
      ++sequence;
    }
    std::vector<Scored> all;
    const std::int64_t keys = sequence < seq_lens.dim(0) ? ReadIndex(seq_lens, sequence) : 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      // The last query stands at the last key.
      if (causal && j > token - ReadIndex(query_start_loc, sequence + 1) + keys) continue;
      const std::int64_t block = ReadIndex(block_table, sequence * block_table.stride(0) + j / bs);
      if (block >= 0) all.push_back({j, score(token, block, j % bs)});
    }
    std::stable_sort(all.begin(), all.end(), [](const Scored& a, const Scored& b) {
      return a.score > b.score || (std::isnan(b.score) && !std::isnan(a.score));
    });
    all.resize(std::min(all.size(), std::size_t(top)));
    std::sort(all.begin(), all.end(),
              [](const Scored& a, const Scored& b) { return a.position < b.position; });
    auto* out = indices.at<std::int32_t>(token);
    std::fill_n(out, top, -1);
    for (std::size_t i = 0; i < all.size(); ++i) out[i] = std::int32_t(all[i].position);
    *counts.at<std::int32_t>(token) = std::int32_t(all.size());
  }
}

}  // namespace

extern constinit const Reference lightning_indexer_reference{.op = "lightning_indexer",
                                                             .run = Bind<&Run>()};

}  // namespace anyop::ops
