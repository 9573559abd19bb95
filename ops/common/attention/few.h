// SPDX-License-Identifier: Apache-2.0
// Attention of a few query rows that share a key head: decode, where memory sets the pace.
//
// Keys and values are read once, straight from where they lie, for all rows; the next tile's keys
// and this tile's values are prefetched while dot products run. A row's keys are cut every 512
// positions and the parts merged in order, whether one thread computes them or several.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ops/common/attention/score.h"
#include "ops/common/attention/tile.h"
#include "ops/common/registers.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr int kFewRows = 16;
inline constexpr int kScoreRow = kTile + 16;  // floats; a group of 4 keys may write beyond 64
inline constexpr std::int64_t kSplit = 512;   // key positions

inline std::int64_t FewScratchFloats(std::int64_t dk, std::int64_t dv) {
  return kFewRows * (Padded(dk) + kScoreRow + 2 * Padded(dv));
}

// The rows of one item: row r is query (first + r) / group of the sequence, head (first + r) %
// group.
struct QueryRows {
  Sequence sequence;
  std::int64_t head;  // key head
  Range rows;
};

template <class C>
class FewRows {
 public:
  FewRows(const AttentionCall& call, const QueryRows& item, float* scratch)
      : call_(call),
        reader_(call.store, item.sequence.index, item.head),
        rule_(call, item.head),
        rows_(int(item.rows.size())),
        dk_(call.query.dim(2)),
        dv_(call.y.dim(2)),
        q_row_(Padded(dk_)),
        v_row_(Padded(dv_)),
        q_(scratch),
        scores_(q_ + kFewRows * q_row_),
        sums_(scores_ + kFewRows * kScoreRow),
        keys_(call.store.keys.base<const C>()),
        values_(call.store.values.base<const C>()) {
    const std::int64_t group = call.group();
    for (int r = 0; r < rows_; ++r) {
      const std::int64_t query = (item.rows.begin + r) / group;
      const std::int64_t head = item.head * group + (item.rows.begin + r) % group;
      position_[r] = item.sequence.Position(query);
      slope_[r] = call.options.slopes ? call.options.slopes[head] : 0.0f;
      seen_[r] = call.options.Visible(position_[r], item.sequence.keys);
      if (seen_[r].size() == 0) continue;
      all_ = all_.size()
                 ? Range{std::min(all_.begin, seen_[r].begin), std::max(all_.end, seen_[r].end)}
                 : seen_[r];
    }
    LoadQueries(item, group);
  }

  // The positions that any row sees.
  Range all() const { return all_; }

  // Computes the part of the rows' results that comes from split `index`.
  void RunSplit(std::int64_t index) {
    std::fill(state_, state_ + rows_, RowSum{});
    std::fill(sums_, sums_ + rows_ * v_row_, 0.0f);
    const Range part = Intersect(all_, {index * kSplit, (index + 1) * kSplit});
    if (part.size() == 0) return;
    Tile tiles[2];
    Tile *tile = &tiles[0], *next = &tiles[1];
    reader_.Read(part.begin / kTile * kTile, all_, tile);
    for (std::int64_t p = tile->first; p < part.end; p += kTile) {
      reader_.Read(p + kTile, all_, next);
      for (int r = 0; r < rows_; r += 4) RunGroup(*tile, *next, r, std::min(4, rows_ - r));
      std::swap(tile, next);
    }
  }

  const RowSum& state(int row) const { return state_[row]; }
  const float* sums(int row) const { return sums_ + row * v_row_; }

 private:
  static constexpr int kVectors = kVectorRegisters / 8;  // by 4 rows of sums: half the registers
  template <int kN>
  using Int = std::integral_constant<int, kN>;

  void LoadQueries(const QueryRows& item, std::int64_t group) {
    for (int r = 0; r < rows_; ++r) {
      const std::int64_t row = item.rows.begin + r;
      float* q = q_ + r * q_row_;
      LoadQuery(call_, item.sequence.query_begin + row / group, item.head * group + row % group, q);
    }
  }

  void RunGroup(const Tile& tile, const Tile& next, int first, int n) {
    switch (n) {
      case 1:
        return RunRows(tile, next, first, Int<1>{});
      case 2:
        return RunRows(tile, next, first, Int<2>{});
      case 3:
        return RunRows(tile, next, first, Int<3>{});
      default:
        return RunRows(tile, next, first, Int<4>{});
    }
  }

  template <int kN>
  void RunRows(const Tile& tile, const Tile& next, int first, Int<kN> rows) {
    Tile::Run lanes[kN], any{kTile, 0}, every{0, kTile};
    for (int r = 0; r < kN; ++r) {
      lanes[r] = tile.Lanes(seen_[first + r]);
      any = {std::min(any.begin, lanes[r].begin), std::max(any.end, lanes[r].end)};
      every = {std::max(every.begin, lanes[r].begin), std::min(every.end, lanes[r].end)};
    }
    tile.ForRuns(any.begin, any.end, [&](int a, int b) { Dots(tile, next, a, b, first, rows); });
    for (int r = 0; r < kN; ++r) Softmax(tile, lanes[r], first + r);
    if (every.begin >= every.end) {
      for (int r = 0; r < kN; ++r) AddValues(tile, lanes[r], first + r, Int<1>{});
      return;
    }
    // A key that one row sees and another does not may hold NaN: rows differ at the edges.
    for (int r = 0; r < kN; ++r)
      AddValues(tile, {lanes[r].begin, every.begin}, first + r, Int<1>{});
    AddValues(tile, every, first, rows);
    for (int r = 0; r < kN; ++r) AddValues(tile, {every.end, lanes[r].end}, first + r, Int<1>{});
  }

  // Dot products of the keys in lanes [begin, end), four at a time, with kN rows.
  template <int kN>
  void Dots(const Tile& tile, const Tile& next, int begin, int end, int first, Int<kN>) {
    const float* q = q_ + first * q_row_;
    for (int t = begin; t < end; t += 4) {
      const C* k[4];
      for (int i = 0; i < 4; ++i) k[i] = keys_ + tile.key[std::min(t + i, end - 1)];
      if (first == 0) PrefetchFor(tile, next, t, std::min(t + 4, end));
      F32 sum[4][kN];
      for (auto& of_key : sum) {
        for (auto& s : of_key) s = Zero();
      }
      ForLanes(dk_, [&](std::int64_t e, auto n) [[gnu::always_inline]] {
        F32 x[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) x[i] = LoadAny(k[i] + e, n);
#pragma GCC unroll 4
        for (int r = 0; r < kN; ++r) {
          const F32 y = Load(q + r * q_row_ + e);
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) sum[i][r] = Fma(x[i], y, sum[i][r]);
        }
      });
#pragma GCC unroll 4
      for (int r = 0; r < kN; ++r) {
        SumFour(sum[0][r], sum[1][r], sum[2][r], sum[3][r], scores_ + (first + r) * kScoreRow + t);
      }
    }
  }

  // Asks for this tile's values and the next tile's keys.
  void PrefetchFor(const Tile& tile, const Tile& next, int begin, int end) const {
    const bool ahead = next.is_full();
    for (int t = begin; t < end; ++t) {
      PrefetchRow(values_ + tile.value[t], dv_);
      if (ahead) PrefetchRow(keys_ + next.key[t], dk_);
    }
  }
  static void PrefetchRow(const C* row, std::int64_t width) {
    for (std::int64_t e = 0; e < width; e += 64 / std::int64_t(sizeof(C))) Prefetch(row + e);
  }

  // Scores become weights exp(score - largest); the row's sums are rescaled if largest grew.
  void Softmax(const Tile& tile, Tile::Run lanes, int row) {
    float* s = scores_ + row * kScoreRow;
    const F32 slope = Set(slope_[row]);
    for (int t = 0; t < kTile; t += kLanes) {
      F32 distance = Zero();
      if (rule_.has_slopes) distance = Distances(tile.first + t - position_[row]);
      Store(s + t, rule_(Load(s + t), slope, distance));
    }
    if (!tile.is_full() || lanes.begin > 0 || lanes.end < kTile) Hide(tile, lanes, s);
    F32 most = Load(s);
    for (int t = kLanes; t < kTile; t += kLanes) most = Max(most, Load(s + t));
    RowSum& state = state_[row];
    const float largest = std::max(state.largest, ReduceMax(most)), base = Base(largest);
    F32 sum = Zero();
    for (int t = 0; t < kTile; t += kLanes) {
      const F32 p = Exp(Load(s + t) - Set(base));
      Store(s + t, p);
      sum += p;
    }
    const float tile_sum = ReduceAdd(sum);
    if (largest == state.largest) {
      state.sum += tile_sum;
      return;
    }
    const float factor = state.is_empty() ? 0.0f : std::exp(state.largest - base);
    state = {largest, state.sum * factor + tile_sum};
    float* sums = sums_ + row * v_row_;
    for (std::int64_t e = 0; e < v_row_; e += kLanes) Store(sums + e, Load(sums + e) * Set(factor));
  }

  static F32 Distances(std::int64_t first) {
    float d[kLanes];
    for (int i = 0; i < kLanes; ++i) d[i] = float(first + i);
    return Load(d);
  }
  // Lanes that are not visible get no score.
  static void Hide(const Tile& tile, Tile::Run lanes, float* s) {
    int at = 0;
    tile.ForRuns(lanes.begin, lanes.end, [&](int a, int b) {
      std::fill(s + at, s + a, kNoScore);
      at = b;
    });
    std::fill(s + at, s + kTile, kNoScore);
  }

  // Adds weight * value over some lanes to the sums of kN rows.
  template <int kN>
  void AddValues(const Tile& tile, Tile::Run lanes, int first, Int<kN> rows) {
    if (lanes.begin >= lanes.end) return;
    std::int64_t e = 0;
    for (; e + kVectors * kLanes <= dv_; e += kVectors * kLanes) {
      AddColumns<kVectors>(tile, lanes, first, rows, e, kFull);
    }
    for (; e + kLanes <= dv_; e += kLanes) AddColumns<1>(tile, lanes, first, rows, e, kFull);
    if (e < dv_) AddColumns<1>(tile, lanes, first, rows, e, int(dv_ - e));
  }

  template <int kWide, int kN, class Count>
  [[gnu::always_inline]] void AddColumns(const Tile& tile, Tile::Run lanes, int first, Int<kN>,
                                         std::int64_t column, Count count) {
    const float* p = scores_ + first * kScoreRow;
    float* sums = sums_ + first * v_row_ + column;
    F32 sum[kN][kWide];
#pragma GCC unroll 4
    for (int r = 0; r < kN; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < kWide; ++j) sum[r][j] = Load(sums + r * v_row_ + j * kLanes);
    }
    tile.ForRuns(lanes.begin, lanes.end, [&](int a, int b) [[gnu::always_inline]] {
      for (int t = a; t < b; ++t) {
        const C* v = values_ + tile.value[t] + column;
        F32 x[kWide];
#pragma GCC unroll 4
        for (int j = 0; j < kWide; ++j) x[j] = LoadAny(v + j * kLanes, count);
#pragma GCC unroll 4
        for (int r = 0; r < kN; ++r) {
          const F32 w = Set(p[r * kScoreRow + t]);
#pragma GCC unroll 4
          for (int j = 0; j < kWide; ++j) sum[r][j] = Fma(w, x[j], sum[r][j]);
        }
      }
    });
#pragma GCC unroll 4
    for (int r = 0; r < kN; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < kWide; ++j) Store(sums + r * v_row_ + j * kLanes, sum[r][j]);
    }
  }

  const AttentionCall& call_;
  TileReader reader_;
  ScoreRule rule_;
  int rows_;
  std::int64_t dk_, dv_, q_row_, v_row_;
  float *q_, *scores_, *sums_;  // [rows, q_row], [rows, kScoreRow], [rows, v_row]
  const C *keys_, *values_;
  Range all_{0, 0};
  Range seen_[kFewRows];
  std::int64_t position_[kFewRows];
  float slope_[kFewRows];
  RowSum state_[kFewRows];
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
