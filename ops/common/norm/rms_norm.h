// SPDX-License-Identifier: Apache-2.0
// Root-mean-square normalization of rows, in f32 lanes.
#pragma once
#include <cmath>
#include <type_traits>

#include "anyop/simd.h"
#include "ops/common/elementwise/elementwise.h"
#include "ops/common/norm/row_unit.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// The squares of a row of d elements, summed in an order that depends on d alone. load(v, i, count)
// fills the vectors v with the elements from i on, and 0 in lanes beyond count.
template <class F>
[[gnu::always_inline]] inline float SumOfSquares(std::int64_t d, F&& load) {
  F32 sum[4] = {Zero(), Zero(), Zero(), Zero()};
  ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
    F32 v[block];
    load(v, i, count);
    for (int k = 0; k < block; ++k) sum[k] = Fma(v[k], v[k], sum[k]);
  });
  return ReduceAdd((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// x[i] * unit * scale are the elements of a normalized row.
struct RowScale {
  float unit, scale;

  [[gnu::always_inline]] F32 Normalize(F32 x) const { return x * Set(unit) * Set(scale); }
};

template <class F>
[[gnu::noinline]] RowScale ScaleOfUnits(std::int64_t d, float eps, float unit, F load) {
  const float squares = SumOfSquares(d, [&](auto& v, std::int64_t i, auto count) {
    load(v, i, count);
    for (F32& one : v) one *= Set(unit);
  });
  return {unit, ScaleInUnits(squares / float(d), eps, unit)};
}

// The scale of a row whose squares have this sum. load: as in SumOfSquares.
template <class F>
[[gnu::always_inline]] inline RowScale ScaleOf(float squares, std::int64_t d, float eps, F load) {
  const float mean_square = squares / float(d) + eps, unit = UnitOf(mean_square);
  if (unit != 1) [[unlikely]]
    return ScaleOfUnits(d, eps, unit, load);
  return {1, 1 / std::sqrt(mean_square)};
}

// The factors of a row's elements. weight: null, or [d].
template <class T>
struct Gain {
  const T* weight;
  F32 offset;

  template <int N, class Count>
  [[gnu::always_inline]] void Load(F32 (&v)[N], std::int64_t i, Count count) const {
    for (int k = 0; k < N; ++k) v[k] = Set(1);
    if (!weight) return;
    LoadBlock(v, weight + i, count);
    for (int k = 0; k < N; ++k) v[k] += offset;
  }
};

// y[r][k] = x[r][i + k] * scale[r] * gain[i + k], k < n, for rows that share the gain's loads.
template <int kRows, class T>
[[gnu::always_inline]] inline void ScaleRows(const T* const (&x)[kRows], Gain<T> gain,
                                             T* const (&y)[kRows], const F32 (&scale)[kRows],
                                             std::int64_t i, std::int64_t n) {
  ForBlocks<4>(n, [&](std::int64_t k, auto count, auto block) {
    F32 v[block], g[block];
    gain.Load(g, i + k, count);
    for (int r = 0; r < kRows; ++r) {
      LoadBlock(v, x[r] + i + k, count);
      for (int b = 0; b < block; ++b) v[b] = v[b] * scale[r] * g[b];
      StoreBlock(y[r] + k, v, count);
    }
  });
}

// A row that has another unit than 1.
template <class T>
[[gnu::noinline]] void NormalizeInUnits(const T* x, Gain<T> gain, T* y, std::int64_t d, float eps,
                                        float unit) {
  const auto load = [&](auto& v, std::int64_t i, auto count) { LoadBlock(v, x + i, count); };
  const RowScale of = ScaleOfUnits(d, eps, unit, load);
  ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
    F32 v[block], g[block];
    gain.Load(g, i, count);
    LoadBlock(v, x + i, count);
    for (int b = 0; b < block; ++b) v[b] = of.Normalize(v[b]) * g[b];
    StoreBlock(y + i, v, count);
  });
}

// Normalizes rows of as many elements as x's, several at a time: the sums, square roots and
// divisions of one row would wait for each other. prepare(r, x, y, squares) says what row r is read
// from and written to (may be the same), and the sum of its squares.
template <class T, class F>
[[gnu::always_inline]] inline void NormalizeRows(const Context& ctx, const Tensor& x,
                                                 const Gain<T>& gain, float eps, bool streams,
                                                 double element_ns, F&& prepare) {
  constexpr int kGroup = 4;
  // Rows are read twice, for their squares and for their results: a group stays in the first cache.
  constexpr std::int64_t kGroupBytes = 16 << 10;
  const std::int64_t d = x.row_size();
  const bool in_groups = !streams && kGroup * d * std::int64_t(sizeof(T)) <= kGroupBytes;
  ForRowGroups<kGroup>(
      ctx, x, in_groups,
      element_ns, [&](std::int64_t first, auto count) __attribute__((always_inline)) {
        const T* from[count];
        T* to[count];
        float squares[count];
        F32 scale[count];
        for (int k = 0; k < count; ++k) prepare(first + k, from[k], to[k], squares[k]);
        bool is_usual = true;
        for (int k = 0; k < count; ++k) {
          squares[k] = squares[k] / float(d) + eps;
          is_usual &= UnitOf(squares[k]) == 1;
          scale[k] = Set(1 / std::sqrt(squares[k]));
        }
        if (!is_usual) [[unlikely]] {
          for (int k = 0; k < count; ++k) {
            const float unit = UnitOf(squares[k]);
            if (unit != 1) {
              NormalizeInUnits<T>(from[k], gain, to[k], d, eps, unit);
            } else {
              ScaleRows<1, T>({from[k]}, gain, {to[k]}, {scale[k]}, 0, d);
            }
          }
          return;
        }
        if constexpr (count == 1) {
          if (streams) {
            StreamPieces(to[0], d, [&](T* piece, std::int64_t i, std::int64_t n) {
              ScaleRows<1, T>(from, gain, {piece}, scale, i, n);
            });
            return EndStream();
          }
        }
        ScaleRows<count, T>(from, gain, to, scale, 0, d);
      });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
