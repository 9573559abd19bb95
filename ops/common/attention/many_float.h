// SPDX-License-Identifier: Apache-2.0
// The form that keys, values and weights of many rows have for products of f32.
#pragma once
#include <cstdint>

#include "ops/common/attention/multiply.h"
#include "ops/common/attention/score.h"
#include "ops/common/attention/tile.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

template <class C>
struct FloatForm : FloatShape {
  static constexpr float kAll{};

  // The elements of a row of a key that count.
  static std::int64_t KeyElements(std::int64_t dk) { return dk; }

  static void LoadQuery(const AttentionCall& call, std::int64_t token, std::int64_t head,
                        float* row) {
    std::fill(row, row + KeyRow(call.query.dim(2)), 0.0f);
    ops::LoadQuery(call, token, head, row);
  }
  static void LoadKey(const C* k, std::int64_t width, float* to) {
    ForLanes(width, [&](std::int64_t e, auto n)
                        [[gnu::always_inline]] { Store(to + e, LoadAny(k + e, n)); });
  }
  static void LoadValues(const Tile& tile, const C* values, std::int64_t width, float* to,
                         std::int64_t row) {
    tile.ForRuns(0, kTile, [&](int a, int b) {
      for (int t = a; t < b; ++t) LoadKey(values + tile.value[t], width, to + t * row);
    });
  }
  // The scores [key, 64] of kLanes rows become weights; returns their sums.
  [[gnu::always_inline]] static F32 Weigh(const Tile& tile, float* s, F32 base) {
    F32 sum = Zero();
    tile.ForRuns(0, kTile, [&](int a, int b) [[gnu::always_inline]] {
      for (int t = a; t < b; ++t) {
        const F32 p = Exp(Load(s + t * kManyRows) - base);
        Store(s + t * kManyRows, p);
        sum += p;
      }
    });
    return sum;
  }
  static const float* Weights(const float* scores) { return scores; }
  // Calls f(begin, end, mask) for the rows of values of some lanes.
  template <class F>
  [[gnu::always_inline]] static void ForValues(const Tile& tile, Tile::Run lanes, F&& f) {
    tile.ForRuns(lanes.begin, lanes.end, [&](int a, int b) { f(a, b, kAll); });
  }
  static void FinishSums(float*, std::int64_t) {}
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
