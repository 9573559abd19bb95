// SPDX-License-Identifier: Apache-2.0
// Every block that a visible key needs must be in the table and in the cache.
#pragma once
#include <string>

#include "anyop/op.h"
#include "ops/common/attention/options.h"

namespace anyop::ops {
namespace {

// Entries of one row of the table, columns [begin, end), must be below `blocks`.
void CheckRow(const Tensor& table, std::int64_t row, std::int64_t begin, std::int64_t end,
              std::int64_t blocks) {
  std::int64_t largest = -1;
  VisitIndex(table.type(), [&](auto zero) {
    using Index = decltype(zero);
    const Index* entry = table.at<const Index>(row);
    Index most = -1;
    for (std::int64_t c = begin; c < end; ++c) most = std::max(most, entry[c]);
    largest = most;
  });
  if (largest < blocks) return;
  for (std::int64_t c = begin; c < end; ++c) {
    const std::int64_t block = ReadIndex(table, row * table.stride(0) + c);
    if (block < blocks) continue;
    Refuse("block_table[" + std::to_string(row) + ", " + std::to_string(c) + "] is " +
           std::to_string(block) + ", but must be less than " + std::to_string(blocks) +
           " (the blocks of key_cache). Try -1 for a block that does not exist.");
  }
}

void CheckTable(const Context&, const Tensor& query, const Tensor& key_cache, const Tensor&,
                const Tensor& block_table, const Tensor& seq_lens, const Tensor* query_start_loc,
                std::optional<float>, bool causal, std::int64_t window_left,
                std::int64_t window_right, float, const Tensor*, const Tensor*, const Tensor*,
                const Tensor*, bool) {
  if (query.dim(1) == 0) return;
  const AttentionOptions options{1, causal, window_left, window_right, 0, nullptr, nullptr};
  const std::int64_t block_size = key_cache.dim(1), columns = block_table.dim(1);
  for (std::int64_t s = 0; s < seq_lens.dim(0); ++s) {
    const std::int64_t keys = ReadIndex(seq_lens, s);
    const std::int64_t queries =
        query_start_loc ? ReadIndex(*query_start_loc, s + 1) - ReadIndex(*query_start_loc, s) : 1;
    if (keys <= 0 || queries <= 0) continue;
    if ((keys - 1) / block_size >= columns) {
      Refuse("seq_lens[" + std::to_string(s) + "] is " + std::to_string(keys) +
             ", but must be at most " + std::to_string(columns * block_size) + " (" +
             std::to_string(columns) + " columns of block_table, blocks of " +
             std::to_string(block_size) + ").");
    }
    // The last query sees the last key, the first one the earliest.
    const std::int64_t first = options.Visible(keys - queries, keys).begin;
    CheckRow(block_table, s, first / block_size, (keys - 1) / block_size + 1, key_cache.dim(0));
  }
}

}  // namespace
}  // namespace anyop::ops
