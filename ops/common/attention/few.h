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
  [[gnu::always_inline]] void PrefetchAll() {
    while (next_ < count_ || line_ < end_) Prefetch();
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
  bool is_off_;
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
        rows_(int(item.rows.size())),
        heads_(int(item.heads.size())),
        dk_(call.query.dim(2)),
        dv_(call.y.dim(2)) {
    const FewScratch<std::int64_t> parts(heads_, PaddedRows(), dk_, dv_);
    const Placed placed(scratch);
    q_row_ = parts.q_row, v_row_ = parts.v_row;
    q_ = placed[parts.queries], scores_ = placed[parts.scores];
    sums_ = placed[parts.sums], totals_ = placed[parts.totals];
    const std::int64_t group = call.group();
    for (int r = 0; r < rows_; ++r) {
      position_[r] = item.sequence.Position((item.rows.begin + r) / group);
      seen_[r] = call.options.Visible(position_[r], item.sequence.keys);
      if (seen_[r].size() == 0) continue;
      all_ = all_.size()
                 ? Range{std::min(all_.begin, seen_[r].begin), std::max(all_.end, seen_[r].end)}
                 : seen_[r];
    }
  }

  // The positions that any row sees.
  Range all() const { return all_; }

  // Computes the part of the rows' results that comes from split `index`.
  void RunSplit(std::int64_t index) {
    Self& self = static_cast<Self&>(*this);
    std::fill(state_, state_ + heads_ * kFewQueries, RowSum{});
    std::fill(sums_, sums_ + heads_ * PaddedRows() * v_row_, 0.0f);
    const Range part = Intersect(all_, {index * kSplit, (index + 1) * kSplit});
    if (part.size() == 0) return;
    const Tensor &k = call_.store.keys, &v = call_.store.values;
    Tile tiles[2];
    Tile *tile = &tiles[0], *next = &tiles[1];
    reader_.Read(part.begin / kTile * kTile, all_, tile);
    ahead_.Start(*tile);
    if (std::exchange(is_first_, false)) ahead_.PrefetchAll();
    for (std::int64_t p = tile->first; p < part.end; p += kTile) {
      reader_.Read(p + kTile, all_, next);
      ahead_.Start(*next);
      for (int r = 0; r < rows_; ++r) lanes_[r] = tile->Lanes(seen_[r]);
      for (int h = 0; h < heads_; ++h) {
        const std::int64_t head = item_.heads.begin + h;
        keys_ = k.base<const C>() + head * k.stride(-2);
        values_ = v.base<const C>() + head * v.stride(-2);
        const ScoreRule rule(call_, head);
        for (int r = 0; r < rows_; r += 4) {
          VisitRows<4>(rows_ - r, [&](auto rows) { self.RunRows(*tile, rule, h, r, rows); });
        }
      }
      std::swap(tile, next);
    }
    self.FinishSums();
  }

  const RowSum& state(int head, int row) const { return state_[head * kFewQueries + row]; }
  const float* sums(int head, int row) const { return Sums(head, row); }
  // Where the sums of a row over all splits may be kept.
  float* total(int head, int row) const { return totals_ + Index(head, row) * v_row_; }

 protected:
  int PaddedRows() const { return (rows_ + 3) / 4 * 4; }
  std::int64_t Index(int head, int row) const { return head * PaddedRows() + row; }
  float* Sums(int head, int row) const { return sums_ + Index(head, row) * v_row_; }
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
    for (const Tile::Run& lanes : std::span(lanes_ + first, std::size_t(kN))) {
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
  int rows_, heads_;
  std::int64_t dk_, dv_, q_row_, v_row_;
  float* q_;                                     // [heads, padded rows, q_row]
  float* scores_;                                // [rows, kScoreRow]
  float *sums_, *totals_;                        // [heads, padded rows, v_row]
  const C *keys_ = nullptr, *values_ = nullptr;  // of the head that runs
  Tile::Run lanes_[kFewQueries];                 // of the tile that runs
  std::int64_t position_[kFewQueries];
  RowSum state_[kFewHeads * kFewQueries];

 private:
  Range all_{0, 0};
  Range seen_[kFewQueries];
  bool is_first_ = true;
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
