// SPDX-License-Identifier: Apache-2.0
// Gradients of z = f(x, y), element by element, where y may be one row for all.
#pragma once
#include "ops/common/elementwise/elementwise.h"
#include "ops/common/row_sums.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// None unless y is one row for all.
constexpr SizeText BinaryBackwardBytes() {
  const SizeText is_row = Min(1, SizeText("rank(dz)") - "rank(y)");
  return is_row * RowSumsWorkspace<SizeText>("rows(dz)", "d").bytes();
}

// Neighbouring elements. What is not asked for is null: dx, dy, and the f32 sum that dy is added to
// where y is one row for all. dx may be dz.
template <class T>
struct BinaryRun {
  const T *dz, *x, *y;
  T *dx, *dy;
  float* sum;
};

template <class T, class DX, class DY>
void BackwardOfRun(std::int64_t n, const BinaryRun<T>& run, DX dx_of, DY dy_of) {
  ForBlocks<4>(n, [&](std::int64_t i, auto count, auto block) {
    F32 dz[block], x[block], y[block], g[block];
    LoadBlock(dz, run.dz + i, count);
    LoadBlock(x, run.x + i, count);
    LoadBlock(y, run.y + i, count);
    if (run.sum) {
      LoadAll(g, run.sum + i, count);
      for (int k = 0; k < block; ++k) g[k] += dy_of(dz[k], x[k]);
      StoreAll(run.sum + i, g, count);
    }
    if (run.dy) {
      for (int k = 0; k < block; ++k) g[k] = dy_of(dz[k], x[k]);
      StoreBlock(run.dy + i, g, count);
    }
    if (run.dx) {
      for (int k = 0; k < block; ++k) g[k] = dx_of(dz[k], y[k]);
      StoreBlock(run.dx + i, g, count);
    }
  });
}

// dx = dx_of(dz, y) and dy = dy_of(dz, x), lane by lane; where y has a lower rank than dz, dy is
// summed over the rows.
template <class T, class DX, class DY>
void BinaryBackward(const Context& ctx, const Tensor& dz, const Tensor& x, const Tensor& y,
                    const Tensor* dx, const Tensor* dy, DX dx_of, DY dy_of) {
  constexpr double kElementNs = sizeof(T) * 0.03;
  const bool is_row = y.rank() < dz.rank();
  const std::int64_t rows = dz.rows(), d = dz.row_size();
  const auto row = [&](std::int64_t r, float* sum) {
    const BinaryRun<T> run{dz.row<const T>(r).data(),
                           x.row<const T>(r).data(),
                           y.base<const T>() + (is_row ? 0 : y.row_offset(r)),
                           dx ? dx->row<T>(r).data() : nullptr,
                           dy && !is_row ? dy->row<T>(r).data() : nullptr,
                           sum};
    BackwardOfRun(d, run, dx_of, dy_of);
  };
  const auto is_plain = [](const Tensor* t) { return !t || t->is_contiguous(); };
  if (is_row && dy) {
    ForRowsIntoSums(ctx, rows, d, kElementNs, row);
    StoreSums(ctx, rows, d, dy->base<T>());
  } else if (!is_row && is_plain(&dz) && is_plain(&x) && is_plain(&y) && is_plain(dx) &&
             is_plain(dy)) {
    const auto run = [&](std::int64_t n, std::int64_t i) {
      const BinaryRun<T> run{dz.base<const T>() + i,
                             x.base<const T>() + i,
                             y.base<const T>() + i,
                             dx ? dx->base<T>() + i : nullptr,
                             dy ? dy->base<T>() + i : nullptr,
                             nullptr};
      BackwardOfRun(n, run, dx_of, dy_of);
    };
    ForRuns(ctx, kElementNs, run, dz);
  } else {
    ctx.ForRows(
        dz, [&](std::int64_t r) { row(r, nullptr); }, kElementNs);
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
