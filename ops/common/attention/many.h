// SPDX-License-Identifier: Apache-2.0
// Attention of up to 64 query rows that share a key head: prefill, where arithmetic sets the pace.
//
// Scores are computed transposed, [key, row]: a query row is a lane, so that the softmax needs no
// sum across lanes, and keys need no transpose. Keys and values of a tile are brought into the form
// that the products take once: f32 (many_float.h), or bf16 for dot instructions (many_dot.h).
#pragma once
#include <algorithm>
#include <cstdint>

#include "ops/common/attention/few.h"
#include "ops/common/attention/many_dot.h"
#include "ops/common/attention/many_float.h"
#include "ops/common/attention/score.h"
#include "ops/common/attention/tile.h"
#include "ops/common/transpose.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

#if defined(__AVX512BF16__)
template <class C>
using ManyForm = DotForm<C>;
#else
template <class C>
using ManyForm = FloatForm<C>;
#endif

template <class C>
class ManyRows {
  using Form = ManyForm<C>;
  using Element = typename Form::Element;

 public:
  ManyRows(const AttentionCall& call, const QueryRows& item, char* scratch)
      : call_(call),
        item_(item),
        reader_(call.store, item.sequence.index),
        rule_(call, item.heads.begin),
        rows_(int(item.rows.size())),
        lanes_((rows_ + kLanes - 1) / kLanes * kLanes),
        dk_(call.query.dim(2)),
        dv_(call.y.dim(2)) {
    const ManyScratch<std::int64_t> parts(dk_, dv_);
    const Placed placed(scratch);
    k_row_ = parts.k_row, v_row_ = parts.v_row;
    queries_ = placed[parts.queries], keys_ = placed[parts.keys], values_ = placed[parts.values];
    sums_ = placed[parts.sums], scores_ = placed[parts.scores];
    largest_ = placed[parts.largest], total_ = placed[parts.total];
    factor_ = placed[parts.factor], begin_ = placed[parts.begin], end_ = placed[parts.end];
    distance_ = placed[parts.distance], slope_ = placed[parts.slope];
    std::fill(largest_, largest_ + kManyRows, kNoScore);
    std::fill(total_, total_ + kManyRows, 0.0f);
    std::fill(sums_, sums_ + rows_ * v_row_, 0.0f);
    std::fill_n(values_, parts.values.count, Element{});
    const std::int64_t group = call.group();
    for (int r = 0; r < rows_; ++r) {
      slope_[r] = call.options.slopes ? call.options.slopes[Head(r)] : 0.0f;
      position_[r] = item.sequence.Position((item.rows.begin + r) / group);
      seen_[r] = call.options.Visible(position_[r], item.sequence.keys);
      if (seen_[r].size() == 0) continue;
      all_ = all_.size()
                 ? Range{std::min(all_.begin, seen_[r].begin), std::max(all_.end, seen_[r].end)}
                 : seen_[r];
    }
    std::fill(slope_ + rows_, slope_ + kManyRows, 0.0f);
    LoadQueries();
  }

  void Run() {
    if (HasTiles()) call_.tiles->begin();
    Tile tile;
    for (std::int64_t p = all_.begin / kTile * kTile; p < all_.end; p += kTile) {
      reader_.Read(p, all_, &tile);
      if (tile.runs == 0) continue;
      RunTile(tile);
    }
    if (HasTiles()) call_.tiles->end();
    for (int r = 0; r < rows_; ++r) {
      Form::FinishSums(sums_ + r * v_row_, v_row_);
      FinishRow(call_, Token(r), Head(r), RowSum{largest_[r], total_[r]}, sums_ + r * v_row_);
    }
  }

 private:
  // Only dot instructions have kernels beside them that use tiles.
  bool HasTiles() const { return std::is_same_v<Element, WordPair> && call_.tiles; }
  std::int64_t Head(int r) const {
    return item_.heads.begin * call_.group() + (item_.rows.begin + r) % call_.group();
  }
  std::int64_t Token(int r) const {
    return item_.sequence.query_begin + (item_.rows.begin + r) / call_.group();
  }

  // queries_ [k_row, 64]: transposed, so that a row of it is one element of every query.
  void LoadQueries() {
    Element* rows = keys_;  // not in use yet
    std::fill(rows + rows_ * k_row_, rows + lanes_ * k_row_, Element{});
    for (int r = 0; r < rows_; ++r) Form::LoadQuery(call_, Token(r), Head(r), rows + r * k_row_);
    for (int r = 0; r < lanes_; r += kLanes) {
      for (std::int64_t e = 0; e < k_row_; e += kLanes) {
        Square<std::uint32_t>::Transpose(
            reinterpret_cast<const char*>(rows + r * k_row_ + e), k_row_ * 4,
            reinterpret_cast<char*>(queries_ + e * kManyRows + r), kManyRows * 4);
      }
    }
  }

  void RunTile(const Tile& tile) {
    LoadTile(tile);
    const TileProduct<Element> scores{.a = {keys_, k_row_, 1},
                                      .b = queries_,
                                      .b_row = kManyRows,
                                      .k0 = 0,
                                      .k1 = Form::KeyElements(dk_),
                                      .c = scores_,
                                      .c_row = kManyRows,
                                      .add = false,
                                      .mask = Form::kAll};
    if (HasTiles()) {  // also of keys that do not exist, whose scores nobody reads
      call_.tiles->scores(Words(keys_), Words(queries_), k_row_, lanes_, scores_);
    } else {
      tile.ForRuns(0, kTile, [&](int a, int b) { Multiply(scores, a, b - a, lanes_); });
    }
    const bool some_hidden = Bounds(tile);
    for (int r = 0; r < lanes_; r += kLanes) Softmax(tile, r, some_hidden);
    Rescale();
    if (HasTiles()) AddWholeTile(tile);
    ForSharedRanges(lane_, rows_, [&](int row, int rows, Tile::Run lanes) {
      if (lanes.begin < lanes.end) AddValues(tile, lanes, row, rows);
    });
  }

  // The existing keys and values of the tile.
  void LoadTile(const Tile& tile) {
    const KeyStore& store = call_.store;
    const C* keys = store.keys.template base<const C>() + item_.heads.begin * store.keys.stride(-2);
    const C* values =
        store.values.template base<const C>() + item_.heads.begin * store.values.stride(-2);
    tile.ForRuns(0, kTile, [&](int a, int b) {
      for (int t = a; t < b; ++t) Form::LoadKey(keys + tile.key[t], dk_, keys_ + t * k_row_);
    });
    Form::LoadValues(tile, values, dv_, values_, v_row_);
  }

  // The visible lanes of each row, as floats; true if any key of the tile is hidden from any row.
  bool Bounds(const Tile& tile) {
    bool some_hidden = !tile.is_full();
    for (int r = 0; r < rows_; ++r) {
      lane_[r] = tile.Lanes(seen_[r]);
      begin_[r] = float(lane_[r].begin);
      end_[r] = float(lane_[r].end);
      distance_[r] = float(tile.first - position_[r]);
      some_hidden |= lane_[r].begin > 0 || lane_[r].end < kTile;
    }
    for (int r = rows_; r < lanes_; ++r) begin_[r] = 0, end_[r] = float(kTile), distance_[r] = 0;
    return some_hidden;
  }

  // Scores of kLanes rows become weights; what is hidden from a row gets weight 0.
  void Softmax(const Tile& tile, int r, bool some_hidden) {
    float* s = scores_ + r;
    const F32 slope = Load(slope_ + r), distance = Load(distance_ + r);
    const F32 begin = Load(begin_ + r), end = Load(end_ + r), hidden = Set(kNoScore);
    const F32 before = Load(largest_ + r);
    F32 largest = before;
    tile.ForRuns(0, kTile, [&](int a, int b) [[gnu::always_inline]] {
      for (int t = a; t < b; ++t) {
        const F32 lane = Set(float(t));
        F32 score = rule_(Load(s + t * kManyRows), slope, distance + lane);
        if (some_hidden) score = Select((lane >= begin) & (lane < end), score, hidden);
        Store(s + t * kManyRows, score);
        largest = Max(score, largest);  // a NaN score leaves the maximum as it was
      }
    });
    const F32 base = Select(largest == hidden, Zero(), largest);
    const F32 sum = Form::Weigh(tile, s, base);
    // A row that had no key keeps a factor of 0, and its sum and values are 0.
    const F32 factor = Select(before == largest, Set(1.0f), Exp(before - base));
    Store(factor_ + r, factor);
    Store(total_ + r, Fma(Load(total_ + r), factor, sum));
    Store(largest_ + r, largest);
  }

  void Rescale() {
    for (int r = 0; r < rows_; ++r) {
      if (factor_[r] == 1.0f) continue;
      float* sums = sums_ + r * v_row_;
      const F32 factor = Set(factor_[r]);
      for (std::int64_t e = 0; e < v_row_; e += kLanes) Store(sums + e, Load(sums + e) * factor);
    }
  }

  static const std::uint32_t* Words(const void* elements) {
    return static_cast<const std::uint32_t*>(elements);
  }
  // Adds the values of a whole tile to rows that see all 64 keys. For other rows a value that they
  // do not see may be NaN, which a weight of 0 would not stop.
  void AddWholeTile(const Tile& tile) {
    if (!tile.is_full()) return;
    std::uint64_t whole = 0;
    for (int r = 0; r < rows_; ++r) {
      if (lane_[r].begin > 0 || lane_[r].end < kTile) continue;
      whole |= std::uint64_t{1} << r;
      lane_[r] = {0, 0};  // nothing is left to add
    }
    if (whole) call_.tiles->add_values(Words(scores_), Words(values_), v_row_, whole, sums_);
  }

  // sums_ [rows, v_row] += weights * values, over keys that all of the rows see.
  void AddValues(const Tile& tile, Tile::Run lanes, int row, int rows) {
    Form::ForValues(tile, lanes, [&](int a, int b, Element mask) {
      for (int part = 0; part < Form::kWeightParts; ++part) {
        const TileProduct<Element> product{
            .a = {Form::Weights(scores_) + part * kManyRows, 1, Form::kWeightParts * kManyRows},
            .b = values_,
            .b_row = v_row_,
            .k0 = a,
            .k1 = b,
            .c = sums_,
            .c_row = v_row_,
            .add = true,
            .mask = mask};
        Multiply(product, row, rows, v_row_);
      }
    });
  }

  const AttentionCall& call_;
  const QueryRows item_;  // one key head
  TileReader reader_;
  ScoreRule rule_;
  int rows_, lanes_;
  std::int64_t dk_, dv_, k_row_, v_row_;
  Element *queries_, *keys_, *values_;  // [k_row, 64] [64, k_row] [64 or 32, v_row]
  float *sums_, *scores_;               // [64, v_row] [64, 64]
  float *largest_, *total_, *factor_, *begin_, *end_, *distance_, *slope_;  // [64]
  Range all_{0, 0};
  Range seen_[kManyRows];
  std::int64_t position_[kManyRows];
  Tile::Run lane_[kManyRows];
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
