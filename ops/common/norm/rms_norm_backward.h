// SPDX-License-Identifier: Apache-2.0
// The gradient of root-mean-square normalization, row by row, in f32 lanes.
//
//   g[j] = dy[j] * (weight[j] + weight_offset)
//   dx[j] = s * g[j] - x[j] * s^3 / d * sum_l g[l] * x[l] + dsum[j]
//   dweight[j] = sum over rows of dy[j] * x[j] * s
#pragma once
#include <cmath>

#include "ops/common/elementwise/elementwise.h"
#include "ops/common/norm/rms_norm.h"
#include "ops/common/row_sums.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// One row, [d] each. Null: weight (the factor is 1), dsum (nothing is added), dx, copy (gets what
// dx gets), sum (dweight is not asked for).
template <class T>
struct NormRow {
  const T *dy, *x, *weight, *dsum;
  T *dx, *copy;
  float* sum;
};

template <class T>
class NormBackward {
 public:
  NormBackward(std::int64_t d, float eps, float weight_offset)
      : d_(d), eps_(eps), offset_(Set(weight_offset)) {}

  void Run(const NormRow<T>& row) const {
    F32 squares[4] = {Zero(), Zero(), Zero(), Zero()},
        products[4] = {Zero(), Zero(), Zero(), Zero()};
    ForBlocks<4>(d_, [&](std::int64_t i, auto count, auto block) {
      F32 x[block], g[block];
      LoadBlock(x, row.x + i, count);
      LoadBlock(g, row.dy + i, count);
      ApplyGain(g, row.weight, i, count);
      for (int k = 0; k < block; ++k) {
        squares[k] = Fma(x[k], x[k], squares[k]);
        products[k] = Fma(g[k], x[k], products[k]);
      }
    });
    const float mean_square = Add(squares) / float(d_) + eps_, product = Add(products);
    if (UnitOf(mean_square) != 1 || !std::isfinite(product)) [[unlikely]] {
      return RunInUnits(row, UnitOf(mean_square));
    }
    const float s = 1 / std::sqrt(mean_square);
    // s^3 / d * product, in an order that overflows only if the gradient does.
    const F32 scale = Set(s), pull = Set(-(product / float(d_) * s * s * s));
    Write(
        row, [=](F32 x) [[gnu::always_inline]] { return x * scale; },
        [=](F32 g, F32 x) [[gnu::always_inline]] { return Fma(x, pull, scale * g); });
  }

 private:
  // For squares or products that f32 does not hold: dx = s * (g - z * mean(g * z)) with z = x * s,
  // whose elements are about 1.
  [[gnu::noinline]] void RunInUnits(const NormRow<T>& row, float unit) const {
    const RowScale of = ScaleOfUnits(d_, eps_, unit, [&](auto& v, std::int64_t i, auto count) {
      LoadBlock(v, row.x + i, count);
    });
    F32 products[4] = {Zero(), Zero(), Zero(), Zero()};
    ForBlocks<4>(d_, [&](std::int64_t i, auto count, auto block) {
      F32 x[block], g[block];
      LoadBlock(x, row.x + i, count);
      LoadBlock(g, row.dy + i, count);
      ApplyGain(g, row.weight, i, count);
      for (int k = 0; k < block; ++k) products[k] = Fma(g[k], of.Normalize(x[k]), products[k]);
    });
    const F32 pull = Set(-Add(products) / float(d_));
    Write(
        row, [=](F32 x) { return of.Normalize(x); },
        [=](F32 g, F32 x) { return of.Normalize(Fma(of.Normalize(x), pull, g)); });
  }

  static float Add(const F32 (&v)[4]) { return ReduceAdd((v[0] + v[1]) + (v[2] + v[3])); }

  template <int N, class Count>
  void ApplyGain(F32 (&g)[N], const T* weight, std::int64_t i, Count count) const {
    if (!weight) return;
    F32 gain[N];
    LoadBlock(gain, weight + i, count);
    for (int k = 0; k < N; ++k) g[k] *= gain[k] + offset_;
  }

  // dx = gradient(g, x) + dsum; normalize(x): what dweight multiplies dy by.
  template <class Normalize, class Gradient>
  [[gnu::always_inline]] void Write(const NormRow<T>& row, Normalize normalize,
                                    Gradient gradient) const {
    ForBlocks<4>(d_, [&](std::int64_t i, auto count, auto block) {
      F32 x[block], g[block], more[block];
      LoadBlock(x, row.x + i, count);
      LoadBlock(g, row.dy + i, count);
      if (row.sum) {
        LoadAll(more, row.sum + i, count);
        for (int k = 0; k < block; ++k) more[k] = Fma(g[k], normalize(x[k]), more[k]);
        StoreAll(row.sum + i, more, count);
      }
      if (!row.dx && !row.copy) return;
      ApplyGain(g, row.weight, i, count);
      for (int k = 0; k < block; ++k) g[k] = gradient(g[k], x[k]);
      if (row.dsum) {
        LoadBlock(more, row.dsum + i, count);
        for (int k = 0; k < block; ++k) g[k] += more[k];
      }
      if (row.dx) StoreBlock(row.dx + i, g, count);
      if (row.copy) StoreBlock(row.copy + i, g, count);
    });
  }

  std::int64_t d_;
  float eps_;
  F32 offset_;
};

// The tensors of a call; those that NormRow may lack may be null here, and dweight.
struct NormTensors {
  const Tensor &dy, &x;
  const Tensor *weight, *dsum, *dx, *copy, *dweight;
};

template <class T>
void RmsNormBackward(const Context& ctx, const NormTensors& t, float eps, float weight_offset) {
  const std::int64_t rows = t.x.rows(), d = t.x.row_size();
  const NormBackward<T> backward(d, eps, weight_offset);
  const auto from = [](const Tensor* x, std::int64_t r) {
    return x ? x->row<const T>(r).data() : nullptr;
  };
  const auto to = [](const Tensor* x, std::int64_t r) { return x ? x->row<T>(r).data() : nullptr; };
  const auto run = [&](std::int64_t r, float* sum) {
    backward.Run({from(&t.dy, r), from(&t.x, r), from(t.weight, 0), from(t.dsum, r), to(t.dx, r),
                  to(t.copy, r), sum});
  };
  constexpr double kElementNs = 0.25;
  if (t.dweight) {
    ForRowsIntoSums(ctx, rows, d, kElementNs, run);
    StoreSums(ctx, rows, d, t.dweight->base<T>());
  } else if (t.dx || t.copy) {
    ctx.ForRows(
        t.x, [&](std::int64_t r) { run(r, nullptr); }, kElementNs);
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
