// SPDX-License-Identifier: Apache-2.0
// The gradients of one key head over some of its keys, 256 keys by 64 query rows at a time.
//
// Scores and their gradients are kept transposed, [key, row], as the forward does: a query row is a
// lane. Sums over the rows grow in rising order; dquery is one part of a sum over the keys.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

#include "ops/common/attention/few.h"
#include "ops/common/attention/multiply.h"
#include "ops/common/attention/score.h"
#include "ops/common/attention/tile.h"
#include "ops/common/transpose.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr int kBackwardRows = 64;
inline constexpr std::int64_t kPassKeys = 256;  // whose keys, values and gradients stay in cache

struct BackwardCall {
  const AttentionCall& forward;          // y and lse are those that the forward gave
  const Tensor& dy;                      // [tq, hq, dv]
  const Tensor* dlse;                    // [hq, tq], or null
  const Tensor *dquery, *dkey, *dvalue;  // or null
  float* parts;                          // [chunks][tq][hq][padded dk]: of dquery

  float* QueryPart(std::int64_t chunk, std::int64_t token, std::int64_t head) const {
    const Tensor& q = forward.query;
    return parts + ((chunk * q.dim(0) + token) * q.dim(1) + head) * Padded(q.dim(2));
  }
  // The keys that any of rows [first, end) of a sequence may see; row r is query r / group.
  Range Seen(const Sequence& s, std::int64_t first, std::int64_t end) const {
    const auto visible = [&](std::int64_t row) {
      return forward.options.Visible(s.Position(row / forward.group()), s.keys);
    };
    return {visible(first).begin, visible(end - 1).end};
  }
};

// Scratch of an item where no sequence has more than `keys`.
template <class N>
struct BackwardScratch : Workspace<N> {
  N k_row, v_row, pass_keys;
  Part<float, N> keys, values, dkeys, dvalues;    // [pass_keys, row]
  Part<float, N> queries, queries_t, dys, dys_t;  // [64, row], and transposed
  Part<float, N> dqueries, p, ds;                 // [64, k_row] [64, 64] [64, 64]
  Part<float, N> lse, shared, slope, distance;    // [64]
  constexpr BackwardScratch(N most_keys, N dk, N dv)
      : k_row(Padded(dk)),
        v_row(Padded(dv)),
        pass_keys(Min(N(kPassKeys), N(kTile) * CeilDiv(most_keys, N(kTile)))),
        keys(this->template Add<float>(pass_keys * k_row)),
        values(this->template Add<float>(pass_keys * v_row)),
        dkeys(this->template Add<float>(pass_keys * k_row)),
        dvalues(this->template Add<float>(pass_keys * v_row)),
        queries(this->template Add<float>(N(kBackwardRows) * k_row)),
        queries_t(this->template Add<float>(N(kBackwardRows) * k_row)),
        dys(this->template Add<float>(N(kBackwardRows) * v_row)),
        dys_t(this->template Add<float>(N(kBackwardRows) * v_row)),
        dqueries(this->template Add<float>(N(kBackwardRows) * k_row)),
        p(this->template Add<float>(N(kTile * kBackwardRows))),
        ds(this->template Add<float>(N(kTile * kBackwardRows))),
        lse(this->template Add<float>(N(kBackwardRows))),
        shared(this->template Add<float>(N(kBackwardRows))),
        slope(this->template Add<float>(N(kBackwardRows))),
        distance(this->template Add<float>(N(kBackwardRows))) {}
};

// sum_e dy[e] * y[e] - dlse, the part of every score's gradient that its row shares.
template <class T>
inline float SharedGradient(const BackwardCall& call, std::int64_t token, std::int64_t head) {
  const T* dy = call.dy.at<const T>(token, head);
  const T* y = call.forward.y.at<const T>(token, head);
  F32 sum = Zero();
  ForLanes(call.dy.dim(2), [&](std::int64_t e, auto n) [[gnu::always_inline]] {
    sum = Fma(LoadN(dy + e, n), LoadN(y + e, n), sum);
  });
  return ReduceAdd(sum) - (call.dlse ? *call.dlse->at<const float>(head, token) : 0.0f);
}

template <class T>
class BackwardRows {
 public:
  BackwardRows(const BackwardCall& call, const Sequence& sequence, std::int64_t head, char* scratch)
      : call_(call),
        sequence_(sequence),
        head_(head),
        key_begin_(ReadIndex(call.forward.store.extent, sequence.index)),
        group_(call.forward.group()),
        rule_(call.forward, head),
        dk_(call.forward.query.dim(2)),
        dv_(call.dy.dim(2)),
        needs_scores_(call.dquery || call.dkey) {
    const BackwardScratch<std::int64_t> parts(call.forward.store.most_keys(), dk_, dv_);
    const Placed placed(scratch);
    k_row_ = parts.k_row, v_row_ = parts.v_row;
    keys_ = placed[parts.keys], values_ = placed[parts.values];
    dkeys_ = placed[parts.dkeys], dvalues_ = placed[parts.dvalues];
    queries_ = placed[parts.queries], queries_t_ = placed[parts.queries_t];
    dys_ = placed[parts.dys], dys_t_ = placed[parts.dys_t];
    dqueries_ = placed[parts.dqueries], p_ = placed[parts.p], ds_ = placed[parts.ds];
    lse_ = placed[parts.lse], shared_ = placed[parts.shared];
    slope_ = placed[parts.slope], distance_ = placed[parts.distance];
    if (dk_ < k_row_ || dv_ < v_row_) std::fill(keys_, p_, 0.0f);
  }

  // Keys [keys.begin, keys.end), begin a multiple of 64, by all rows; dquery's part is number
  // `chunk`.
  void Run(Range keys, std::int64_t chunk) {
    const std::int64_t rows = sequence_.queries * group_;
    for (std::int64_t k = keys.begin; k < keys.end; k += kPassKeys) {
      pass_ = {k, std::min(keys.end, k + kPassKeys)};
      LoadKeys();
      for (first_ = 0; first_ < rows; first_ += kBackwardRows) {
        rows_ = int(std::min<std::int64_t>(rows - first_, kBackwardRows));
        const Range any = Intersect(call_.Seen(sequence_, first_, first_ + rows_), keys);
        const Range seen = Intersect(any, pass_);
        if (seen.size() == 0) continue;
        LoadRows();
        for (std::int64_t p = seen.begin / kTile * kTile; p < seen.end; p += kTile) {
          RunTile(p, Intersect(seen, {p, p + kTile}));
        }
        if (call_.dquery) StoreQueries(chunk, any.begin >= pass_.begin);
      }
      StoreKeys();
    }
  }

 private:
  using Lanes = Tile::Run;

  std::int64_t Token(int r) const { return sequence_.query_begin + (first_ + r) / group_; }
  std::int64_t Head(int r) const { return head_ * group_ + (first_ + r) % group_; }

  void LoadKeys() {
    const KeyStore& store = call_.forward.store;
    for (std::int64_t j = 0; j < pass_.size(); ++j) {
      LoadRow<T>(store.keys, key_begin_ + pass_.begin + j, head_, keys_ + j * k_row_);
      LoadRow<T>(store.values, key_begin_ + pass_.begin + j, head_, values_ + j * v_row_);
    }
    std::fill(dkeys_, queries_, 0.0f);
  }

  // The rows from first_ on, both as they are and transposed.
  void LoadRows() {
    const AttentionCall& forward = call_.forward;
    lanes_ = (rows_ + kLanes - 1) / kLanes * kLanes;
    for (int r = 0; r < rows_; ++r) {
      const std::int64_t token = Token(r), head = Head(r);
      lse_[r] = *forward.lse->at<const float>(head, token);
      position_[r] = sequence_.Position((first_ + r) / group_);
      seen_[r] = forward.options.Visible(position_[r], sequence_.keys);
      if (lse_[r] == kNoScore) {
        ClearRow(r);
        continue;
      }
      LoadRow<T>(forward.query, token, head, queries_ + r * k_row_);
      LoadRow<T>(call_.dy, token, head, dys_ + r * v_row_);
      shared_[r] = SharedGradient<T>(call_, token, head);
      slope_[r] = forward.options.slopes ? forward.options.slopes[head] : 0.0f;
    }
    for (int r = rows_; r < lanes_; ++r) ClearRow(r);
    std::fill(dqueries_, dqueries_ + rows_ * k_row_, 0.0f);
    Transpose(queries_, k_row_, queries_t_);
    Transpose(dys_, v_row_, dys_t_);
  }
  // Row r sees no key: probabilities exp(0 - infinity), and zeros for what they meet.
  void ClearRow(int r) {
    std::fill_n(queries_ + r * k_row_, k_row_, 0.0f);
    std::fill_n(dys_ + r * v_row_, v_row_, 0.0f);
    lse_[r] = -kNoScore;
    shared_[r] = slope_[r] = 0;
    seen_[r] = {0, 0};
  }
  // to [width, 64] = from [lanes_, width], width a multiple of 16.
  void Transpose(const float* from, std::int64_t width, float* to) const {
    for (int r = 0; r < lanes_; r += kLanes) {
      for (std::int64_t e = 0; e < width; e += kLanes) {
        Square<std::int32_t>::Transpose(
            reinterpret_cast<const char*>(from + r * width + e), width * 4,
            reinterpret_cast<char*>(to + e * kBackwardRows + r), kBackwardRows * 4);
      }
    }
  }

  // The tile of positions p ... p + 63, of which some row may see those in `seen`.
  void RunTile(std::int64_t p, Range seen) {
    const int a = int(seen.begin - p), b = int(seen.end - p);
    const std::int64_t at = p - pass_.begin;
    Multiply(Scores(keys_ + at * k_row_, k_row_, queries_t_, dk_, p_), a, b - a, lanes_);
    if (needs_scores_) {
      Multiply(Scores(values_ + at * v_row_, v_row_, dys_t_, dv_, ds_), a, b - a, lanes_);
    }
    FindVisible(p, a, b);
    int r = 0;
    for (; r + 4 * kLanes <= lanes_; r += 4 * kLanes) Weigh<4>(r, a, b);
    for (; r < lanes_; r += kLanes) Weigh<1>(r, a, b);
    if (call_.dvalue) AddToKeys(p_, dys_, v_row_, dvalues_ + at * v_row_, a, b);
    if (call_.dkey) AddToKeys(ds_, queries_, k_row_, dkeys_ + at * k_row_, a, b);
    if (!call_.dquery) return;
    ForSharedRanges(lane_, rows_, [&](int row, int rows, Lanes lanes) {
      Multiply(FloatTileProduct{.a = {ds_, 1, kBackwardRows},
                                .b = keys_ + at * k_row_,
                                .b_row = k_row_,
                                .k0 = lanes.begin,
                                .k1 = lanes.end,
                                .c = dqueries_,
                                .c_row = k_row_,
                                .add = true},
               row, rows, k_row_);
    });
  }
  FloatTileProduct Scores(const float* keys, std::int64_t row, const float* rows_t,
                          std::int64_t width, float* to) const {
    return {.a = {keys, row, 1},
            .b = rows_t,
            .b_row = kBackwardRows,
            .k0 = 0,
            .k1 = width,
            .c = to,
            .c_row = kBackwardRows,
            .add = false};
  }
  // sums [64, width] += weights * rows, each key over the rows that see it.
  void AddToKeys(const float* weights, const float* rows, std::int64_t width, float* sums, int a,
                 int b) const {
    ForSharedRanges(key_rows_ + a, b - a, [&](int key, int keys, Lanes run) {
      Multiply(FloatTileProduct{.a = {weights, kBackwardRows, 1},
                                .b = rows,
                                .b_row = width,
                                .k0 = run.begin,
                                .k1 = run.end,
                                .c = sums,
                                .c_row = width,
                                .add = true},
               a + key, keys, width);
    });
  }

  // The visible lanes of each row among [a, b), and the rows that see each lane. Both ends rise
  // with the row, so those rows are a range; one between them without lse has probabilities of 0.
  void FindVisible(std::int64_t p, int a, int b) {
    for (int r = 0; r < rows_; ++r) {
      const auto lane = [&](std::int64_t position) {
        return int(std::clamp<std::int64_t>(position - p, a, b));
      };
      lane_[r] = {lane(seen_[r].begin), lane(seen_[r].end)};
      distance_[r] = float(p - position_[r]);
    }
    std::fill(distance_ + rows_, distance_ + lanes_, 0.0f);
    int first = 0, end = 0;
    for (int t = a; t < b; ++t) {
      while (first < rows_ && lane_[first].end <= t) ++first;
      while (end < rows_ && lane_[end].begin <= t) ++end;
      key_rows_[t] = {first, std::max(first, end)};
    }
  }

  // Scores of kN vectors of rows become probabilities, and the gradients of probabilities those of
  // dot products. Nobody reads those of hidden pairs.
  template <int kN>
  void Weigh(int r, int a, int b) {
    F32 lse[kN], shared[kN], slope[kN], distance[kN];
    LoadAll(lse, lse_ + r, kFull);
    LoadAll(shared, shared_ + r, kFull);
    LoadAll(slope, slope_ + r, kFull);
    LoadAll(distance, distance_ + r, kFull);
    for (int t = a; t < b; ++t) {
      float *p = p_ + t * kBackwardRows + r, *ds = ds_ + t * kBackwardRows + r;
      const F32 lane = Set(float(t));
      F32 s[kN], derivative[kN];
#pragma GCC unroll 4
      for (int v = 0; v < kN; ++v) {
        s[v] = rule_(Load(p + v * kLanes), slope[v], distance[v] + lane, &derivative[v]) - lse[v];
      }
      ExpAll(s);
      StoreAll(p, s, kFull);
      if (!needs_scores_) continue;
#pragma GCC unroll 4
      for (int v = 0; v < kN; ++v) {
        const F32 dp = Load(ds + v * kLanes);
        Store(ds + v * kLanes, s[v] * (dp - shared[v]) * derivative[v]);
      }
    }
  }

  // A chunk's first pass over a row overwrites its part; later ones add.
  void StoreQueries(std::int64_t chunk, bool is_first) const {
    for (int r = 0; r < rows_; ++r) {
      const float* from = dqueries_ + r * k_row_;
      float* to = call_.QueryPart(chunk, Token(r), Head(r));
      for (std::int64_t e = 0; e < k_row_; e += kLanes) {
        Store(to + e, is_first ? Load(from + e) : Load(to + e) + Load(from + e));
      }
    }
  }
  void StoreKeys() const {
    for (std::int64_t j = 0; j < pass_.size(); ++j) {
      const std::int64_t token = key_begin_ + pass_.begin + j;
      if (call_.dkey) StoreRow(*call_.dkey, token, head_, dkeys_ + j * k_row_);
      if (call_.dvalue) StoreRow(*call_.dvalue, token, head_, dvalues_ + j * v_row_);
    }
  }
  static void StoreRow(const Tensor& to, std::int64_t token, std::int64_t head, const float* row) {
    T* y = to.at<T>(token, head);
    ForLanes(to.dim(2), [&](std::int64_t e, auto n)
                            [[gnu::always_inline]] { StoreN(y + e, Load(row + e), n); });
  }

  const BackwardCall& call_;
  const Sequence sequence_;
  const std::int64_t head_, key_begin_, group_;
  const ScoreRule rule_;
  const std::int64_t dk_, dv_;
  std::int64_t k_row_, v_row_;
  float *keys_, *values_, *dkeys_, *dvalues_;    // [256, dk or dv]
  float *queries_, *queries_t_, *dys_, *dys_t_;  // [64, d], and transposed
  float *dqueries_, *p_, *ds_;                   // [64, dk] [64, 64] [64, 64]
  float *lse_, *shared_, *slope_, *distance_;    // [64]
  const bool needs_scores_;
  Range pass_{0, 0};
  std::int64_t first_ = 0;  // row
  int rows_ = 0, lanes_ = 0;
  Range seen_[kBackwardRows];
  std::int64_t position_[kBackwardRows];
  Lanes lane_[kBackwardRows], key_rows_[kTile];
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
