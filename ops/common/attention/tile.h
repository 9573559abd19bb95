// SPDX-License-Identifier: Apache-2.0
// A tile: 64 neighbouring key positions, those of them that exist, and where their rows lie.
//
// Tiles begin at multiples of 64, so that a key has the same lane for every query that sees it: the
// bits of a row do not depend on what is computed beside it.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ops/common/attention/layout.h"
#include "ops/common/attention/options.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

struct Tile {
  std::int64_t first;  // the position of lane 0
  int runs;            // existing keys, as ranges of lanes in rising order
  struct Run {
    int begin, end;
  } run[kTile / 2 + 1];
  std::int64_t key[kTile], value[kTile];  // offsets in elements of a row of head 0

  bool is_full() const { return runs == 1 && run[0].begin == 0 && run[0].end == kTile; }

  // Bit i: whether lane i exists.
  std::uint64_t Exists() const {
    std::uint64_t lanes = 0;
    for (int i = 0; i < runs; ++i) {
      const int n = run[i].end - run[i].begin;
      lanes |= (n == kTile ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1) << run[i].begin;
    }
    return lanes;
  }

  // Calls f(begin, end) for the existing keys among lanes [begin, end).
  template <class F>
  [[gnu::always_inline]] void ForRuns(int begin, int end, F&& f) const {
    for (int i = 0; i < runs; ++i) {
      const int a = std::max(begin, run[i].begin), b = std::min(end, run[i].end);
      if (a < b) f(a, b);
    }
  }
  // The lanes of a range of positions.
  struct Run Lanes(Range r) const {
    const auto clamp = [&](std::int64_t p) {
      return int(std::clamp<std::int64_t>(p - first, 0, kTile));
    };
    return {clamp(r.begin), clamp(r.end)};
  }
};

// Fills tiles with the rows of one sequence.
class TileReader {
 public:
  TileReader(const KeyStore& store, std::int64_t sequence) : store_(store) {
    const Tensor &k = store.keys, &v = store.values;
    const int row = store.table ? 1 : 0;
    key_row_ = k.stride(row);
    value_row_ = v.stride(row);
    if (store.table) {
      table_row_ = sequence * store.table->stride(0);
      block_size_ = k.dim(1);
      key_block_ = k.stride(0);
      value_block_ = v.stride(0);
    } else {
      const std::int64_t begin = ReadIndex(store.extent, sequence);
      key_base_ = begin * key_row_;
      value_base_ = begin * value_row_;
    }
  }

  // The tile that holds position `first`, a multiple of 64; only keys in `seen` are looked at.
  void Read(std::int64_t first, Range seen, Tile* tile) const {
    const Range wanted = Intersect(seen, {first, first + kTile});
    tile->first = first;
    tile->runs = 0;
    if (!store_.table) {
      if (wanted.size()) AddRun(wanted, key_base_, value_base_, tile);
      return;
    }
    for (std::int64_t p = wanted.begin; p < wanted.end;) {
      const std::int64_t column = p / block_size_, start = column * block_size_;
      const std::int64_t end = std::min(wanted.end, start + block_size_);
      const std::int64_t block = ReadIndex(*store_.table, table_row_ + column);
      if (block >= 0) {
        AddRun({p, end}, key_base_ + block * key_block_ - start * key_row_,
               value_base_ + block * value_block_ - start * value_row_, tile);
      }
      p = end;
    }
  }

 private:
  // Position p lies at base + p * row.
  void AddRun(Range p, std::int64_t key_base, std::int64_t value_base, Tile* tile) const {
    const int begin = int(p.begin - tile->first), end = int(p.end - tile->first);
    for (int i = begin; i < end; ++i) {
      tile->key[i] = key_base + (tile->first + i) * key_row_;
      tile->value[i] = value_base + (tile->first + i) * value_row_;
    }
    if (tile->runs && tile->run[tile->runs - 1].end == begin) {
      tile->run[tile->runs - 1].end = end;
    } else {
      tile->run[tile->runs++] = {begin, end};
    }
  }

  const KeyStore& store_;
  std::int64_t key_row_, value_row_, key_base_ = 0, value_base_ = 0;
  std::int64_t table_row_ = 0, block_size_ = 1, key_block_ = 0, value_block_ = 0;
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
