// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "anyop/simd.h"
#include "ops/common/elementwise/elementwise.h"
#include "ops/common/norm/row_unit.h"
#include "ops/common/row_sums.h"

namespace anyop::ops {
namespace {

// Mean and standard deviation of a row, in f32 lanes: the mean first, then squares of differences.

// Of x * unit: the row itself, or a multiple whose squares f32 can hold.
struct Moments {
  float mean, scale;  // scale: 1 / sqrt(mean of (x - mean)^2 + eps)
  float unit = 1;

  // (x - mean) * scale of the row's elements.
  [[gnu::always_inline]] F32 Normalize(F32 x) const {
    return Fma(x, Set(unit), Set(-mean)) * Set(scale);
  }
};

// The sum of the vectors that load(v, i, count) fills with the elements from i on, and 0 beyond.
template <class F>
[[gnu::always_inline]] inline float SumOf(std::int64_t d, F&& load) {
  F32 sum[4] = {Zero(), Zero(), Zero(), Zero()};
  ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
    F32 v[block];
    load(v, i, count);
    for (int k = 0; k < block; ++k) sum[k] += v[k];
  });
  return ReduceAdd((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// load as in SumOf.
template <class F>
[[gnu::always_inline]] inline float MeanOf(std::int64_t d, F&& load) {
  return SumOf(d, load) / float(d);
}
template <class F>
[[gnu::always_inline]] inline float MeanSquareOf(std::int64_t d, float mean, F&& load) {
  const F32 center = Set(mean);
  return SumOf(
             d,
             [&](auto& v, std::int64_t i, auto count) __attribute__((always_inline)) {
               load(v, i, count);
               for (F32& one : v) {
                 one = KeepFirst(one - center, count, Zero());
                 one = one * one;
               }
             }) /
         float(d);
}

// Of a row that has another unit than 1.
template <class T>
[[gnu::noinline]] Moments MomentsInUnits(const T* x, std::int64_t d, float eps, float unit) {
  const auto load = [&](auto& v, std::int64_t i, auto count) {
    LoadBlock(v, x + i, count);
    for (F32& one : v) one *= Set(unit);
  };
  const float mean = MeanOf(d, load);
  return {mean, ScaleInUnits(MeanSquareOf(d, mean, load), eps, unit), unit};
}

template <class T>
[[gnu::always_inline]] inline Moments MomentsOf(const T* x, std::int64_t d, float eps) {
  const auto load = [&](auto& v, std::int64_t i, auto count) __attribute__((always_inline)) {
    LoadBlock(v, x + i, count);
  };
  const float mean = MeanOf(d, load);
  const float variance = MeanSquareOf(d, mean, load) + eps;
  const float unit = UnitOf(variance);
  if (unit != 1) [[unlikely]]
    return MomentsInUnits(x, d, eps, unit);
  return {mean, 1 / std::sqrt(variance)};
}

// y = (x - mean) * scale * weight + bias, [d] each; a null weight is 1, a null bias 0. y may be x.
template <class T>
void WriteRow(const T* x, const T* weight, const T* bias, T* y, std::int64_t d,
              const Moments& moments) {
  ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
    F32 v[block], gain[block], shift[block];
    LoadBlock(v, x + i, count);
    for (int k = 0; k < block; ++k) {
      v[k] = moments.Normalize(v[k]);
      gain[k] = Set(1.0f);
      shift[k] = Zero();
    }
    if (weight) LoadBlock(gain, weight + i, count);
    if (bias) LoadBlock(shift, bias + i, count);
    for (int k = 0; k < block; ++k) v[k] = Fma(v[k], gain[k], shift[k]);
    StoreBlock(y + i, v, count);
  });
}

void Run(const Context& ctx, const Tensor& x, const Tensor* weight, const Tensor* bias, float eps,
         const Tensor& y) {
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t d = x.row_size();
    const T* w = weight ? weight->base<const T>() : nullptr;  // [d]
    const T* b = bias ? bias->base<const T>() : nullptr;      // [d]
    ctx.ForRows(
        x,
        [&](std::int64_t r) {
          const T* xr = x.row<const T>(r).data();  // [d]
          WriteRow(xr, w, b, y.row<T>(r).data(), d, MomentsOf(xr, d, eps));
        },
        0.1);
  });
}

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

ANYOP_KERNEL(layer_norm){.run = Bind<&Run>()};
ANYOP_KERNEL(layer_norm_backward){.workspace = kWorkspace<&BackwardBytes>,
                                  .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
