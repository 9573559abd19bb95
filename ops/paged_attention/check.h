// SPDX-License-Identifier: Apache-2.0
// Every block that a visible key needs must be in the table and in the cache.
#pragma once
#include "anyop/op.h"
#include "ops/common/attention/options.h"
#include "ops/common/blocks/block_table.h"

namespace anyop::ops {
namespace {

void CheckTable(const Context&, const TensorShape& query, const TensorShape& key_cache,
                const TensorShape&, const Tensor& block_table, const Tensor& seq_lens,
                const Tensor* query_start_loc, std::optional<float>, bool causal,
                std::int64_t window_left, std::int64_t window_right, float, const TensorShape*,
                const TensorShape*, const TensorShape*, const TensorShape*, bool) {
  if (query.dim(1) == 0) return;
  const AttentionOptions options{1, causal, window_left, window_right, 0, nullptr, nullptr};
  // The first query sees the earliest key.
  CheckTables(block_table, seq_lens, query_start_loc, key_cache, "key_cache",
              [&](std::int64_t keys, std::int64_t queries) {
                return options.Visible(keys - queries, keys).begin;
              });
}

}  // namespace
}  // namespace anyop::ops
