// SPDX-License-Identifier: Apache-2.0
// Attention of a few query rows of some key heads: decode, where memory sets the pace.
//
// Keys and values are read once, straight from where they lie, for all rows of their head, tile by
// tile for all heads. Meanwhile the next tile is brought into the second level in the order of
// memory: heads alone, which lie apart, would wait for each line. A row's keys are cut every 512
// positions and the parts merged in order, whether one thread computes them or several.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "ops/common/attention/score.h"
#include "ops/common/attention/tile.h"
#include "ops/common/visit_rows.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// The rows of one item: row r is query (first + r) / group of the sequence, head (first + r) %
// group of each key head.
struct QueryRows {
  Sequence sequence;
  Range heads;  // key heads
  Range rows;
};

// Below this size, keys and values of one call, prefetching does not pay: in cache it doubles the
// time.
inline constexpr std::int64_t kFewBytes = 256 << 10;

// Brings the rows of a tile into the second level of cache, in the order of memory, as fast as
// those of the tile before are used: a burst would fill the queue of misses, and loads would wait.
// Portions of four lines as lines are used take 0.74 of the time of bursts (1,024 keys in cache,
// 32/8 heads of 128).
template <class C>
class Ahead {
 public:
  // keys: of all sequences.
  Ahead(const KeyStore& store, Range heads, std::int64_t keys)
      : keys_(store.keys), values_(store.values), first_head_(heads.begin), heads_(heads.size()) {
    const std::int64_t key_bytes = (keys_.dim(-1) + values_.dim(-1)) * std::int64_t(sizeof(C));
    is_off_ = keys * store.heads() * key_bytes < kFewBytes;
    if (keys_.stride(-2) == keys_.dim(-1) && values_.stride(-2) == values_.dim(-1)) {
      row_heads_ = std::exchange(heads_, 1);
    }
  }

  // The first tile of a split. That of the first split is asked for at once: nothing that is used
  // before it could pace it.
  [[gnu::always_inline]] void StartFirst(const Tile& tile) {
    Start(tile);
    if (std::exchange(is_first_, false)) PrefetchAll();
  }
  void Start(const Tile& tile) {
    count_ = next_ = credit_ = 0;
    line_ = end_ = nullptr;
    if (is_off_) return;
    const std::uint64_t exists = tile.Exists();
    AddPieces(keys_, tile.key, exists);
    AddPieces(values_, tile.value, exists);
  }
  // The kernel has read so many bytes; as many come.
  [[gnu::always_inline]] void Used(int bytes) {
    for (credit_ += bytes; credit_ >= kPortion; credit_ -= kPortion) Prefetch();
  }
  template <int kBytes>
  [[gnu::always_inline]] void Used() {
    if constexpr (kBytes % kPortion) return Used(kBytes);
#pragma GCC unroll 4
    for (int i = 0; i < kBytes / kPortion; ++i) Prefetch();
  }

 private:
  static constexpr int kPortion = 4 * 64;

  // Inlined: a compiler takes a function that only prefetches for one without effect, and a call
  // among sums in registers would have them stored.
  [[gnu::always_inline]] void Prefetch() {
    if (line_ >= end_) {
      if (next_ == count_) return;
      line_ = piece_[next_].begin;
      end_ = piece_[next_++].end;
    }
#pragma GCC unroll 4
    for (int i = 0; i < kPortion; i += 64) __builtin_prefetch(line_ + i, 0, 2);
    line_ += kPortion;
  }
  [[gnu::always_inline]] void PrefetchAll() {
    while (next_ < count_ || line_ < end_) Prefetch();
  }
  // Rows that lie together become one piece.
  void AddPieces(const Tensor& x, const std::int64_t* offset, std::uint64_t exists) {
    const std::int64_t width = x.dim(-1) * row_heads_;
    const int first = count_;
    const auto add = [&](int lane, std::int64_t head) {
      if (!(exists >> lane & 1)) return;
      const C* row = x.base<const C>() + offset[lane] + head * x.stride(-2);
      const Piece piece{reinterpret_cast<const char*>(row),
                        reinterpret_cast<const char*>(row + width)};
      if (count_ > first && piece_[count_ - 1].end == piece.begin) {
        piece_[count_ - 1].end = piece.end;
      } else {
        piece_[count_++] = piece;
      }
    };
    const std::int64_t end = first_head_ + heads_;
    if (x.stride(-3) >= x.stride(-2)) {
      for (int lane = 0; lane < kTile; ++lane) {
        for (std::int64_t head = first_head_; head < end; ++head) add(lane, head);
      }
    } else {
      for (std::int64_t head = first_head_; head < end; ++head) {
        for (int lane = 0; lane < kTile; ++lane) add(lane, head);
      }
    }
  }

  struct Piece {
    const char *begin, *end;
  };
  const Tensor &keys_, &values_;
  const std::int64_t first_head_;
  std::int64_t heads_, row_heads_ = 1;  // heads that touch are one row: fewer pieces, fewer checks
  bool is_off_, is_first_ = true;
  int count_ = 0, next_ = 0, credit_ = 0;
  const char *line_ = nullptr, *end_ = nullptr;  // what is left of a piece
  Piece piece_[2 * kTile * kFewHeads];
};

template <int kN>
using Int = std::integral_constant<int, kN>;

// What the kernels of decode share. Self has RunRows(tile, rule, head, first row, Int<rows>):
// scores and sums of up to four rows of one key head over one tile.
template <class Self, class C>
class FewQueries {
 public:
  FewQueries(const AttentionCall& call, const QueryRows& item, char* scratch)
      : call_(call),
        item_(item),
        reader_(call.store, item.sequence.index),
        ahead_(call.store, item.heads, item.sequence.keys * call.sequences),
        sizes_{int(item.rows.size()), int(item.heads.size()), call.query.dim(2), call.y.dim(2)} {
    const FewScratch<std::int64_t> parts(sizes_.heads, PaddedRows(), sizes_.dk, sizes_.dv);
    const Placed placed(scratch);
    sizes_.q_row = parts.q_row, sizes_.v_row = parts.v_row;
    scratch_ = {placed[parts.queries], placed[parts.scores], placed[parts.sums],
                placed[parts.totals]};
    const std::int64_t group = call.group();
    Range& all = seen_.all;
    for (int r = 0; r < sizes_.rows; ++r) {
      seen_.position[r] = item.sequence.Position((item.rows.begin + r) / group);
      const Range keys = call.options.Visible(seen_.position[r], item.sequence.keys);
      seen_.keys[r] = keys;
      if (keys.size() == 0) continue;
      all = all.size() ? Range{std::min(all.begin, keys.begin), std::max(all.end, keys.end)} : keys;
    }
  }

  // The positions that any row sees.
  Range all() const { return seen_.all; }

  // Computes the part of the rows' results that comes from split `index`.
  void RunSplit(std::int64_t index) {
    Self& self = static_cast<Self&>(*this);
    std::fill(state_, state_ + sizes_.heads * kFewQueries, RowSum{});
    std::fill_n(scratch_.sums, sizes_.heads * PaddedRows() * sizes_.v_row, 0.0f);
    const Range part = Intersect(seen_.all, {index * kSplit, (index + 1) * kSplit});
    if (part.size() == 0) return;
    const Tensor &k = call_.store.keys, &v = call_.store.values;
    Tile tiles[2];
    Tile *tile = &tiles[0], *next = &tiles[1];
    reader_.Read(part.begin / kTile * kTile, seen_.all, tile);
    ahead_.StartFirst(*tile);
    for (std::int64_t p = tile->first; p < part.end; p += kTile) {
      reader_.Read(p + kTile, seen_.all, next);
      ahead_.Start(*next);
      for (int r = 0; r < sizes_.rows; ++r) seen_.lanes[r] = tile->Lanes(seen_.keys[r]);
      for (int h = 0; h < sizes_.heads; ++h) {
        const std::int64_t head = item_.heads.begin + h;
        head_ = {k.base<const C>() + head * k.stride(-2), v.base<const C>() + head * v.stride(-2)};
        const ScoreRule rule(call_, head);
        for (int r = 0; r < sizes_.rows; r += 4) {
          VisitRows<4>(sizes_.rows - r, [&](auto rows) { self.RunRows(*tile, rule, h, r, rows); });
        }
      }
      std::swap(tile, next);
    }
    self.FinishSums();
  }

  const RowSum& state(int head, int row) const { return state_[head * kFewQueries + row]; }
  const float* sums(int head, int row) const { return Sums(head, row); }
  // Where the sums of a row over all splits may be kept.
  float* total(int head, int row) const {
    return scratch_.totals + Index(head, row) * sizes_.v_row;
  }

 protected:
  struct Sizes {
    int rows, heads;
    std::int64_t dk, dv;
    std::int64_t q_row = 0, v_row = 0;  // of the rows in the scratch memory
  };
  struct Scratch {
    float* queries;        // [heads, padded rows, q_row]
    float* scores;         // [rows, kScoreRow]
    float *sums, *totals;  // [heads, padded rows, v_row]
  };
  // What the rows see.
  struct SeenKeys {
    Range all{0, 0};  // positions that any row sees
    Range keys[kFewQueries];
    std::int64_t position[kFewQueries];  // of the query
    Tile::Run lanes[kFewQueries];        // of the tile that runs
  };
  struct HeadMemory {
    const C *keys, *values;
  };

  int PaddedRows() const { return (sizes_.rows + 3) / 4 * 4; }
  std::int64_t Index(int head, int row) const { return head * PaddedRows() + row; }
  float* Sums(int head, int row) const { return scratch_.sums + Index(head, row) * sizes_.v_row; }
  std::int64_t Token(int row) const {
    return item_.sequence.query_begin + (item_.rows.begin + row) / call_.group();
  }
  // The query head of a row.
  std::int64_t Head(int head, int row) const {
    return (item_.heads.begin + head) * call_.group() + (item_.rows.begin + row) % call_.group();
  }
  // The lanes that any of kN rows sees, and those that all do; empty ones end before they begin.
  template <int kN>
  std::pair<Tile::Run, Tile::Run> SeenLanes(int first, Int<kN>) const {
    Tile::Run any{kTile, 0}, every{0, kTile};
    for (const Tile::Run& lanes : std::span(seen_.lanes + first, std::size_t(kN))) {
      any = {std::min(any.begin, lanes.begin), std::max(any.end, lanes.end)};
      every = {std::max(every.begin, lanes.begin), std::min(every.end, lanes.end)};
    }
    return {any, every};
  }
  float Slope(int head, int row) const {
    return call_.options.slopes ? call_.options.slopes[Head(head, row)] : 0.0f;
  }

  const AttentionCall& call_;
  const QueryRows item_;
  TileReader reader_;
  Ahead<C> ahead_;
  Sizes sizes_;
  Scratch scratch_;
  HeadMemory head_{};  // of the head that runs
  SeenKeys seen_;
  RowSum state_[kFewHeads * kFewQueries];
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
