// SPDX-License-Identifier: Apache-2.0
// Tables of blocks: which sequence a token belongs to, where its keys lie, and that each block that
// a call reads is in the table and in the cache.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

// A token's place: query `query` of the `queries` of a sequence.
struct TokenPlace {
  std::int64_t sequence, query, queries;
};

// starts: [b+1], or null for one token each. Tokens after the last sequence get sequence b.
inline TokenPlace FindToken(const Tensor* starts, std::int64_t sequences, std::int64_t token) {
  if (!starts) return {std::min(token, sequences), 0, 1};
  std::int64_t low = 0, high = sequences;  // the first sequence that ends after the token
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (ReadIndex(*starts, middle + 1) > token) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (low == sequences) return {sequences, 0, 0};
  const std::int64_t begin = ReadIndex(*starts, low);
  return {low, token - begin, ReadIndex(*starts, low + 1) - begin};
}

// How many keys of a sequence the token sees: the last query sees the last key.
inline std::int64_t CountSeenKeys(const TokenPlace& at, std::int64_t keys, bool causal) {
  const std::int64_t seen = causal ? at.query + 1 + keys - at.queries : keys;
  return std::clamp<std::int64_t>(seen, 0, std::max<std::int64_t>(keys, 0));
}

// A key's place in a cache [blocks, block_size, ...].
struct KeyPlace {
  std::int64_t block, offset;
};

// Walks the keys [begin, end) of a row of a table in rising order, but for those of missing blocks.
class TableKeys {
 public:
  TableKeys(const Tensor& table, std::int64_t row, std::int64_t block_size, std::int64_t begin,
            std::int64_t end)
      : table_(table),
        row_(row * table.stride(0)),
        block_size_(block_size),
        position_(begin),
        end_(end) {}

  // Gives up to `room` places of keys in a row of one block, from `first` on; 0 at the end.
  std::int64_t Next(std::int64_t room, KeyPlace* first) {
    while (position_ < end_) {
      const std::int64_t offset = position_ % block_size_;
      const std::int64_t block = ReadIndex(table_, row_ + position_ / block_size_);
      const std::int64_t rest = std::min(block_size_ - offset, end_ - position_);
      if (block < 0) {
        position_ += rest;
        continue;
      }
      *first = {block, offset};
      const std::int64_t count = std::min(rest, room);
      position_ += count;
      return count;
    }
    return 0;
  }
  // The position of the key after the last one that Next gave.
  std::int64_t position() const { return position_; }

 private:
  const Tensor& table_;
  std::int64_t row_, block_size_, position_, end_;
};

// Entries of one row of the table, columns [begin, end), must be below `blocks`, which `cache` has.
inline void CheckTableRow(const Tensor& table, std::int64_t row, std::int64_t begin,
                          std::int64_t end, std::int64_t blocks, std::string_view cache) {
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
           " (the blocks of " + std::string(cache) + "). Try -1 for a block that does not exist.");
  }
}

// The same for all keys that a call sees. first(keys, queries): the earliest that a sequence's
// queries see; they see the last one always. cache: [blocks, block_size, ...], called `name`.
template <class First>
void CheckTables(const Tensor& table, const Tensor& seq_lens, const Tensor* starts,
                 const TensorShape& cache, std::string_view name, First first) {
  const std::int64_t block_size = cache.dim(1), columns = table.dim(1);
  for (std::int64_t s = 0; s < seq_lens.dim(0); ++s) {
    const std::int64_t keys = ReadIndex(seq_lens, s);
    const std::int64_t queries = starts ? ReadIndex(*starts, s + 1) - ReadIndex(*starts, s) : 1;
    if (keys <= 0 || queries <= 0) continue;
    if ((keys - 1) / block_size >= columns) {
      Refuse("seq_lens[" + std::to_string(s) + "] is " + std::to_string(keys) +
             ", but must be at most " + std::to_string(columns * block_size) + " (" +
             std::to_string(columns) + " columns of block_table, blocks of " +
             std::to_string(block_size) + ").");
    }
    CheckTableRow(table, s, first(keys, queries) / block_size, (keys - 1) / block_size + 1,
                  cache.dim(0), name);
  }
}

}  // namespace
}  // namespace anyop::ops
