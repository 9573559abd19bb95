// SPDX-License-Identifier: Apache-2.0
// Decode with bf16 dot instructions, for queries of bf16 and keys and values of bf16, i8 or f8e4m3.
//
// Four rows run together. Scores lie as [key / 4][row][key % 4], so that a vector holds four keys
// of all four; weights, rounded to bf16, are pairs of keys; sums keep the order of words.h until a
// split is done. A pair of keys is one step of a sum whatever other rows see of it.
#pragma once
#if defined(__AVX512BF16__)
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ops/common/attention/few.h"
#include "ops/common/attention/words.h"
#include "ops/common/dot_bf16.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

template <class C>
class DotRows : public FewQueries<DotRows<C>, C> {
  using Few = FewQueries<DotRows<C>, C>;

 public:
  DotRows(const AttentionCall& call, const QueryRows& item, char* scratch)
      : Few(call, item, scratch) {
    for (int h = 0; h < heads_; ++h) {
      for (int r = 0; r < rows_; ++r) {
        const BF16* q = call.query.at<const BF16>(this->Token(r), this->Head(h, r));
        OrderWords<C>(q, dk_, Query(h, r));
      }
    }
  }

  void FinishSums() {
    for (int h = 0; h < heads_; ++h) {
      for (int r = 0; r < rows_; ++r) {
        for (std::int64_t e = 0; e < v_row_; e += kWordBlock) OrderSums<C>(this->Sums(h, r) + e);
      }
    }
  }

  template <int kN>
  void RunRows(const Tile& tile, const ScoreRule& rule, int head, int first, Int<kN> rows) {
    const auto [any, shared] = this->SeenLanes(first, rows);
    if (any.begin >= any.end) return;
    tile.ForRuns(any.begin, any.end, [&](int a, int b) { Dots(tile, a, b, head, first, rows); });
    Softmax(tile, rule, head, first, rows);
    // A key that one row sees and another does not may hold NaN: rows differ at the edges.
    Tile::Run every{(shared.begin + 1) & ~1, shared.end & ~1};
    if (every.begin >= every.end) every = {any.end, any.end};
    AddEdges(tile, {any.begin, every.begin}, head, first, rows);
    AddValues(tile, every, head, first, 0, rows);
    AddEdges(tile, {every.end, any.end}, head, first, rows);
  }

 private:
  using Few::call_, Few::item_, Few::rows_, Few::heads_, Few::dk_, Few::dv_;
  using Few::lanes_, Few::position_, Few::state_, Few::ahead_;
  using Few::q_, Few::q_row_, Few::v_row_, Few::scores_, Few::keys_;

  BF16* Query(int head, int row) const {
    return reinterpret_cast<BF16*>(q_ + (head * rows_ + row) * q_row_);
  }
  // Weights of the pairs of keys: [key / 4][row][key % 4 / 2], behind the scores.
  std::int32_t* weights() const {
    return reinterpret_cast<std::int32_t*>(scores_ + 4 * (kTile + 16));
  }

  template <int kN>
  void AddEdges(const Tile& tile, Tile::Run part, int head, int first, Int<kN>) {
    for (int r = 0; r < kN; ++r) {
      const Tile::Run own = lanes_[first + r];
      AddValues(tile, {std::max(own.begin, part.begin), std::min(own.end, part.end)}, head, first,
                r, Int<1>{});
    }
  }

  // Scores of the keys in lanes [begin, end), whole groups of four.
  template <int kN>
  void Dots(const Tile& tile, int begin, int end, int head, int first, Int<kN> rows) {
    const BF16* q = Query(head, first);
    const std::int64_t q_row = 2 * q_row_, dk = dk_;
    float* scores = scores_;
    const C* keys = keys_;
    const auto used = [&]() [[gnu::always_inline]] {
      if (first == 0) ahead_.template Used<4 * kWordBlock* int(sizeof(C))>();
    };
    for (int t = begin & ~3; t < end; t += 4) {
      const std::int64_t* key = tile.key + t;
      if (t >= begin && t + 4 <= end) [[likely]] {
        const C* k[4] = {keys + key[0], keys + key[1], keys + key[2], keys + key[3]};
        _mm512_storeu_ps(scores + 4 * t, FourDots(k, q, q_row, dk, rows, used));
        continue;
      }
      const C* k[4];
      int there = 0;
      for (int i = 0; i < 4; ++i) {
        k[i] = keys + tile.key[std::clamp(t + i, begin, end - 1)];
        there |= int(t + i >= begin && t + i < end) << i;
      }
      // Keys of other runs in the same four keep what they have.
      _mm512_mask_storeu_ps(scores + 4 * t, __mmask16(there * 0x1111),
                            FourDots(k, q, q_row, dk, rows, used));
    }
  }

  // Four keys by kN rows, as [row][key].
  template <int kN, class Used>
  [[gnu::always_inline]] static __m512 FourDots(const C* const (&k)[4], const BF16* q,
                                                std::int64_t q_row, std::int64_t dk, Int<kN>,
                                                Used&& used) {
    F32 sum[kN][4];  // [row][key]
#pragma GCC unroll 4
    for (int r = 0; r < kN; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sum[r][i] = Zero();
    }
    const auto step = [&](std::int64_t e, auto n) [[gnu::always_inline]] {
      used();
      __m512i x[4][2];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) LoadWords(k[i] + e, n, x[i]);
#pragma GCC unroll 4
      for (int r = 0; r < kN; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) {
          const __m512i y = _mm512_loadu_si512(q + r * q_row + e + 32 * v);
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) sum[r][i] = AddDots(sum[r][i], x[i][v], y);
        }
      }
    };
    std::int64_t e = 0;
    for (; e + kWordBlock <= dk; e += kWordBlock) step(e, kAll);
    if (e < dk) step(e, int(dk - e));
    return SumFours(sum).v;
  }

  [[gnu::always_inline]] static __m256i Words(F32 x) {
    return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x.v));
  }

  // What differs between the rows of a group, in the lanes of [row][key % 4].
  struct Lanes {
    alignas(64) float slope[16], distance[16], begin[16], end[16], largest[16];
  };

  // Scores become weights exp(score - largest); a row's sums are rescaled if largest grew.
  template <int kN>
  void Softmax(const Tile& tile, const ScoreRule& rule, int head, int first, Int<kN>) {
    Lanes of;
    bool some_hidden = !tile.is_full();
    for (int i = 0; i < 16; ++i) {
      const int r = std::min(i / 4, kN - 1);
      const Tile::Run lanes = lanes_[first + r];
      of.slope[i] = this->Slope(head, first + r);
      of.distance[i] = float(tile.first + i % 4 - position_[first + r]);
      of.begin[i] = float(lanes.begin - i % 4), of.end[i] = float(lanes.end - i % 4);
      of.largest[i] = state_[head * kFewQueries + first + r].largest;
      some_hidden |= lanes.begin > 0 || lanes.end < kTile;
    }
    const F32 slope = Load(of.slope), distance = Load(of.distance), old = Load(of.largest);
    const std::uint64_t exists = some_hidden ? tile.Exists() : 0;
    F32 most = old;
    for (int t = 0; t < kTile; t += 4) {
      const F32 at = Set(float(t));
      F32 s = rule(Load(scores_ + 4 * t), slope, distance + at);
      if (some_hidden) {
        const Mask there{__mmask16((exists >> t & 15) * 0x1111)};
        const Mask visible = (at >= Load(of.begin)) & (at < Load(of.end)) & there;
        s = Select(visible, s, Set(kNoScore));
      }
      Store(scores_ + 4 * t, s);
      most = Max(s, most);  // a NaN leaves the maximum as it was
    }
    most = Max(most, {_mm512_permute_ps(most.v, 0x4e)});
    most = Max(most, {_mm512_permute_ps(most.v, 0xb1)});
    const F32 base = Select(most == Set(kNoScore), Zero(), most);
    F32 sum = Zero();
    for (int t = 0; t < kTile; t += 4) {
      const F32 p = Exp(Load(scores_ + 4 * t) - base);
      sum += p;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(weights() + 2 * t), Words(p));
    }
    sum += {_mm512_permute_ps(sum.v, 0x4e)};
    sum += {_mm512_permute_ps(sum.v, 0xb1)};
    float sums[16], mosts[16];
    Store(sums, sum);
    Store(mosts, most);
    for (int r = 0; r < kN; ++r) Update(head, first + r, mosts[4 * r], sums[4 * r]);
  }
  void Update(int head, int row, float largest, float tile_sum) {
    RowSum& state = state_[head * kFewQueries + row];
    if (largest == state.largest) {
      state.sum += tile_sum;
      return;
    }
    const float factor = state.is_empty() ? 0.0f : std::exp(state.largest - Base(largest));
    state = {largest, state.sum * factor + tile_sum};
    float* sums = this->Sums(head, row);
    for (std::int64_t e = 0; e < v_row_; e += kLanes) Store(sums + e, Load(sums + e) * Set(factor));
  }

  // Adds weight * value over some lanes to the sums of rows first + own ... of a group.
  template <int kN>
  void AddValues(const Tile& tile, Tile::Run lanes, int head, int first, int own, Int<kN> rows) {
    if (lanes.begin >= lanes.end) return;
    std::int64_t e = 0;
    for (; e + kWordBlock <= dv_; e += kWordBlock) {
      AddColumns(tile, lanes, head, first, own, rows, e, kAll);
    }
    if (e < dv_) AddColumns(tile, lanes, head, first, own, rows, e, int(dv_ - e));
  }
  template <int kN, class N>
  [[gnu::always_inline]] void AddColumns(const Tile& tile, Tile::Run lanes, int head, int first,
                                         int own, Int<kN>, std::int64_t column, N n) {
    const std::int32_t* p = weights() + 2 * own;
    const C* values = this->values_ + column;
    float* sums = this->Sums(head, first + own) + column;
    F32 sum[kN][4];
#pragma GCC unroll 4
    for (int r = 0; r < kN; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sum[r][j] = Load(sums + r * v_row_ + j * kLanes);
    }
    tile.ForRuns(lanes.begin, lanes.end, [&](int a, int b) [[gnu::always_inline]] {
      const auto add = [&](int t, auto has_first, auto has_second) [[gnu::always_inline]] {
        if (first + own == 0) ahead_.template Used<2 * kWordBlock* int(sizeof(C))>();
        __m512i v[2] = {}, w[2] = {}, pairs[4];
        if constexpr (has_first) LoadWords(values + tile.value[t], n, v);
        if constexpr (has_second) LoadWords(values + tile.value[t + 1], n, w);
        PairWords(v, w, pairs);
#pragma GCC unroll 4
        for (int r = 0; r < kN; ++r) {
          const __m512i x = _mm512_set1_epi32(p[(t & ~3) * 2 + r * 2 + (t & 3) / 2]);
#pragma GCC unroll 4
          for (int j = 0; j < 4; ++j) sum[r][j] = AddDots(sum[r][j], pairs[j], x);
        }
      };
      int t = a & ~1;
      if (a & 1) {
        add(t, std::false_type{}, std::true_type{});
        t += 2;
      }
      for (; t + 2 <= b; t += 2) add(t, std::true_type{}, std::true_type{});
      if (t < b) add(t, std::true_type{}, std::false_type{});
    });
#pragma GCC unroll 4
    for (int r = 0; r < kN; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) Store(sums + r * v_row_ + j * kLanes, sum[r][j]);
    }
  }
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
#endif
