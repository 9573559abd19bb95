// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/elementwise.h"
#include "ops/common/row_sums.h"
#include "ops/layer_norm/moments.h"

namespace anyop::ops {
namespace {

// Sums of rows for dweight, and behind them those for dbias.
constexpr SizeText BackwardBytes() {
  return RowSumsWorkspace<SizeText>("rows(x)", SizeText(2) * "d").bytes();
}

// One row, [d] each. A null weight is 1; what is null otherwise is not asked for.
template <class T>
struct BackwardRow {
  const T *dy, *x, *weight;
  T* dx;
  float *dweight, *dbias;
};

template <class T, int N, class Count>
[[gnu::always_inline]] inline void ApplyGain(F32 (&g)[N], const T* weight, Count count) {
  if (!weight) return;
  F32 gain[N];
  LoadBlock(gain, weight, count);
  for (int k = 0; k < N; ++k) g[k] *= gain[k];
}

template <class T>
void AddToSums(const BackwardRow<T>& row, std::int64_t d, const Moments& moments) {
  ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
    F32 x[block], g[block], sum[block];
    LoadBlock(x, row.x + i, count);
    LoadBlock(g, row.dy + i, count);
    LoadAll(sum, row.dweight + i, count);
    for (int k = 0; k < block; ++k) sum[k] = Fma(g[k], moments.Normalize(x[k]), sum[k]);
    StoreAll(row.dweight + i, sum, count);
    LoadAll(sum, row.dbias + i, count);
    for (int k = 0; k < block; ++k) sum[k] += g[k];
    StoreAll(row.dbias + i, sum, count);
  });
}

// dx = scale * (g - mean(g) - z * mean(g * z)), g = dy * weight, z = (x - mean) * scale
template <class T>
void WriteGradient(const BackwardRow<T>& row, std::int64_t d, const Moments& moments) {
  const auto load_g = [&](auto& g, std::int64_t i, auto count) __attribute__((always_inline)) {
    LoadBlock(g, row.dy + i, count);
    ApplyGain(g, row.weight ? row.weight + i : nullptr, count);
  };
  const float sum = SumOf(d, load_g);
  const float product = SumOf(
      d, [&](auto& g, std::int64_t i, auto count) __attribute__((always_inline)) {
        F32 x[std::extent_v<std::remove_reference_t<decltype(g)>>];
        load_g(g, i, count);
        LoadBlock(x, row.x + i, count);
        for (std::size_t k = 0; k < std::size(x); ++k) g[k] = g[k] * moments.Normalize(x[k]);
      });
  const F32 g_mean = Set(sum / float(d)), pull = Set(product / float(d));
  const F32 scale = Set(moments.scale), unit = Set(moments.unit);
  ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
    F32 x[block], g[block];
    LoadBlock(x, row.x + i, count);
    load_g(g, i, count);
    for (int k = 0; k < block; ++k) {
      g[k] = scale * ((g[k] - g_mean) - moments.Normalize(x[k]) * pull) * unit;
    }
    StoreBlock(row.dx + i, g, count);
  });
}

template <class T>
void Backward(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor* weight,
              float eps, const Tensor* dx, const Tensor* dweight, const Tensor* dbias) {
  const std::int64_t rows = x.rows(), d = x.row_size();
  const auto run = [&](std::int64_t r, float* sum) {
    const BackwardRow<T> row{dy.row<const T>(r).data(),
                             x.row<const T>(r).data(),
                             weight ? weight->base<const T>() : nullptr,
                             dx ? dx->row<T>(r).data() : nullptr,
                             sum,
                             sum ? sum + d : nullptr};
    const Moments moments = MomentsOf(row.x, d, eps);
    if (sum) AddToSums(row, d, moments);
    if (dx) WriteGradient(row, d, moments);
  };
  constexpr double kElementNs = 0.4;
  if (dweight || dbias) {
    ForRowsIntoSums(ctx, rows, 2 * d, kElementNs / 2, run);
    if (dweight) StoreSums(ctx, rows, d, dweight->base<T>(), 2 * d);
    if (dbias) StoreSums(ctx, rows, d, dbias->base<T>(), 2 * d, d);
  } else if (dx) {
    ctx.ForRows(
        x, [&](std::int64_t r) { run(r, nullptr); }, kElementNs);
  }
}

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor* weight,
                 float eps, const Tensor* dx, const Tensor* dweight, const Tensor* dbias) {
  VisitFloat(x.type(), [&](auto zero) {
    Backward<decltype(zero)>(ctx, dy, x, weight, eps, dx, dweight, dbias);
  });
}

}  // namespace
}  // namespace anyop::ops
