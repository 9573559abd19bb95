// SPDX-License-Identifier: Apache-2.0
// Decode: products of a form with the keys, and weights of f32 by values of f32.
//
// The form of this file takes keys of any storage as f32; that of few_dot.h has dot instructions.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "ops/common/attention/few.h"
#include "ops/common/registers.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

template <class C>
struct FloatWords {
  static constexpr int kVectors = kVectorRegisters / 8;  // by 4 rows of sums: half the registers
  static constexpr int kKeys = kVectorRegisters / 8;     // likewise, of products with 4 queries

  static void LoadQuery(const AttentionCall& call, std::int64_t token, std::int64_t head,
                        float* q) {
    ops::LoadQuery(call, token, head, q);
  }

  // Products of four keys, sum[row][key]. used(bytes): so much of a key was read.
  template <int kN, class Used>
  [[gnu::always_inline]] static void FourDots(const C* const (&k)[4], const float* q,
                                              std::int64_t q_row, std::int64_t dk,
                                              F32 (&sum)[kN][4], Used&& used) {
#pragma GCC unroll 2
    for (int first_key = 0; first_key < 4; first_key += kKeys) {
      const C* const* some = k + first_key;
      F32 part[kKeys][kN];
      for (auto& of_key : part) {
        for (auto& s : of_key) s = Zero();
      }
      ForLanes(dk, [&](std::int64_t e, auto n) [[gnu::always_inline]] {
        used(Int<kKeys * kLanes* int(sizeof(C))>{});
        F32 x[kKeys];
#pragma GCC unroll 4
        for (int i = 0; i < kKeys; ++i) x[i] = LoadAny(some[i] + e, n);
#pragma GCC unroll 4
        for (int r = 0; r < kN; ++r) {
          const F32 y = Load(q + r * q_row + e);
#pragma GCC unroll 4
          for (int i = 0; i < kKeys; ++i) part[i][r] = Fma(x[i], y, part[i][r]);
        }
      });
#pragma GCC unroll 4
      for (int i = 0; i < kKeys; ++i) {
#pragma GCC unroll 4
        for (int r = 0; r < kN; ++r) sum[r][first_key + i] = part[i][r];
      }
    }
  }

  // Calls f(column, Int<vectors>, count of a vector) for all of dv columns.
  template <class F>
  [[gnu::always_inline]] static void ForColumns(std::int64_t dv, F&& f) {
    std::int64_t e = 0;
    for (; e + kVectors * kLanes <= dv; e += kVectors * kLanes) f(e, Int<kVectors>{}, kFull);
    for (; e + kLanes <= dv; e += kLanes) f(e, Int<1>{}, kFull);
    if (e < dv) f(e, Int<1>{}, int(dv - e));
  }
  template <int kWide, class Count>
  [[gnu::always_inline]] static void LoadValues(const C* v, Count count, F32 (&x)[kWide]) {
#pragma GCC unroll 4
    for (int j = 0; j < kWide; ++j) x[j] = LoadAny(v + j * kLanes, count);
  }
  // Puts sums in the order of elements.
  static void FinishSums(float*, std::int64_t) {}
};

template <class C, class Form>
class FewRows : public FewQueries<FewRows<C, Form>, C> {
  using Few = FewQueries<FewRows<C, Form>, C>;

 public:
  FewRows(const AttentionCall& call, const QueryRows& item, char* scratch)
      : Few(call, item, scratch) {
    for (int h = 0; h < sizes_.heads; ++h) {
      for (int r = 0; r < sizes_.rows; ++r) {
        Form::LoadQuery(call, this->Token(r), this->Head(h, r), Query(h, r));
      }
    }
  }

  void FinishSums() {
    for (int h = 0; h < sizes_.heads; ++h) {
      for (int r = 0; r < sizes_.rows; ++r) Form::FinishSums(this->Sums(h, r), sizes_.v_row);
    }
  }

  template <int kN>
  void RunRows(const Tile& tile, const ScoreRule& rule, int head, int first, Int<kN> rows) {
    const Tile::Run* lanes = seen_.lanes + first;
    const auto [any, every] = this->SeenLanes(first, rows);
    tile.ForRuns(any.begin, any.end, [&](int a, int b) { Dots(tile, a, b, head, first, rows); });
    for (int r = 0; r < kN; ++r) Softmax(tile, rule, head, first + r);
    if (every.begin >= every.end) {
      for (int r = 0; r < kN; ++r) AddValues(tile, lanes[r], head, first + r, Int<1>{});
      return;
    }
    // A key that one row sees and another does not may hold NaN: rows differ at the edges.
    for (int r = 0; r < kN; ++r) {
      AddValues(tile, {lanes[r].begin, every.begin}, head, first + r, Int<1>{});
    }
    AddValues(tile, every, head, first, rows);
    for (int r = 0; r < kN; ++r) {
      AddValues(tile, {every.end, lanes[r].end}, head, first + r, Int<1>{});
    }
  }

 private:
  using Few::sizes_, Few::scratch_, Few::head_, Few::seen_, Few::state_, Few::ahead_;

  float* Query(int head, int row) const {
    return scratch_.queries + (head * sizes_.rows + row) * sizes_.q_row;
  }

  // Dot products of the keys in lanes [begin, end), four at a time, with kN rows.
  template <int kN>
  void Dots(const Tile& tile, int begin, int end, int head, int first, Int<kN>) {
    const float* q = Query(head, first);
    for (int t = begin; t < end; t += 4) {
      const C* k[4];
      for (int i = 0; i < 4; ++i) k[i] = head_.keys + tile.key[std::min(t + i, end - 1)];
      F32 sum[kN][4];
      Form::FourDots(k, q, sizes_.q_row, sizes_.dk, sum, [&](auto bytes) [[gnu::always_inline]] {
        if (first == 0) ahead_.template Used<bytes()>();
      });
      StoreSums(sum, scratch_.scores + first * kScoreRow + t, kScoreRow);
    }
  }

  // Scores become weights exp(score - largest); the row's sums are rescaled if largest grew.
  void Softmax(const Tile& tile, const ScoreRule& rule, int head, int row) {
    float* s = scratch_.scores + row * kScoreRow;
    const F32 slope = Set(this->Slope(head, row));
    for (int t = 0; t < kTile; t += kLanes) {
      F32 distance = Zero();
      if (rule.has_slopes) distance = Distances(tile.first + t - seen_.position[row]);
      Store(s + t, rule(Load(s + t), slope, distance));
    }
    const Tile::Run lanes = seen_.lanes[row];
    if (!tile.is_full() || lanes.begin > 0 || lanes.end < kTile) Hide(tile, lanes, s);
    F32 most = Load(s);
    for (int t = kLanes; t < kTile; t += kLanes) most = Max(most, Load(s + t));
    RowSum& state = state_[head * kFewQueries + row];
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
    float* sums = this->Sums(head, row);
    for (std::int64_t e = 0; e < sizes_.v_row; e += kLanes)
      Store(sums + e, Load(sums + e) * Set(factor));
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
  void AddValues(const Tile& tile, Tile::Run lanes, int head, int first, Int<kN> rows) {
    if (lanes.begin >= lanes.end) return;
    Form::ForColumns(sizes_.dv, [&](std::int64_t e, auto wide, auto count) [[gnu::always_inline]] {
      AddColumns<wide()>(tile, lanes, head, first, rows, e, count);
    });
  }

  template <int kWide, int kN, class Count>
  [[gnu::always_inline]] void AddColumns(const Tile& tile, Tile::Run lanes, int head, int first,
                                         Int<kN>, std::int64_t column, Count count) {
    const float* p = scratch_.scores + first * kScoreRow;
    float* sums = this->Sums(head, first) + column;
    F32 sum[kN][kWide];
#pragma GCC unroll 4
    for (int r = 0; r < kN; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < kWide; ++j) sum[r][j] = Load(sums + r * sizes_.v_row + j * kLanes);
    }
    tile.ForRuns(lanes.begin, lanes.end, [&](int a, int b) [[gnu::always_inline]] {
      for (int t = a; t < b; ++t) {
        if (first == 0) ahead_.template Used<kWide * kLanes* int(sizeof(C))>();
        F32 x[kWide];
        Form::LoadValues(head_.values + tile.value[t] + column, count, x);
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
      for (int j = 0; j < kWide; ++j) Store(sums + r * sizes_.v_row + j * kLanes, sum[r][j]);
    }
  }
};

template <class C>
using FloatRows = FewRows<C, FloatWords<C>>;

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
