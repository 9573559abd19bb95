// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/workspace.h"
#include "ops/lora/adapters.h"

namespace anyop::ops {
namespace {

// The tokens' adapters.
template <class N>
constexpr ArrayWorkspace<Use, N> ShrinkLayout(N t) {
  return ArrayWorkspace<Use, N>(t);
}
constexpr SizeText ShrinkBytes() { return ShrinkLayout<SizeText>("t").bytes(); }

// y[r][j] = scale * sum_l x[r][l] * a[j * pitch + l] for kRows rows and kOutputs outputs. Each sum
// has the same order, whatever these are.
template <int kRows, int kOutputs, class T>
void ShrinkTile(const T* const (&x)[kRows], const T* a, Index pitch, Index k, float scale,
                float* const (&y)[kRows]) {
  F32 sum[kRows][kOutputs];
  for (auto& row : sum) {
    for (F32& s : row) s = Zero();
  }
  ForLanes(k, [&](Index l, auto n) {
    F32 v[kRows];
    for (int r = 0; r < kRows; ++r) v[r] = LoadN(x[r] + l, n);
    for (int j = 0; j < kOutputs; ++j) {
      const F32 w = LoadN(a + j * pitch + l, n);
      for (int r = 0; r < kRows; ++r) sum[r][j] = Fma(v[r], w, sum[r][j]);
    }
  });
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kOutputs; ++j) y[r][j] = scale * ReduceAdd(sum[r][j]);
  }
}

template <int kRows, class T>
void ShrinkRows(const T* const (&x)[kRows], const T* a, Index pitch, Index k, Index outputs,
                float scale, float* const (&y)[kRows]) {
  if (outputs == 4) return ShrinkTile<kRows, 4>(x, a, pitch, k, scale, y);
  for (Index j = 0; j < outputs; ++j) {
    float* to[kRows];
    for (int r = 0; r < kRows; ++r) to[r] = y[r] + j;
    ShrinkTile<kRows, 1>(x, a + j * pitch, pitch, k, scale, to);
  }
}

void RunShrink(const Context& ctx, const Tensor& x, const Tensor& a, const Tensor& indices,
               float scale, const Tensor& y) {
  const Index r = a.dim(1), k = a.dim(2), tiles = (r + 3) / 4;
  for (Index i = 0; i < indices.dim(0); ++i) {
    if (ReadIndex(indices, i) < 0) std::fill_n(y.at<float>(i), r, 0.0f);
  }
  const auto layout = ShrinkLayout<std::int64_t>(x.dim(0));
  Use* uses = Placed(ctx, layout)[layout.elements];
  const Index n = SortUses(indices, uses), pairs = (n + 1) / 2;
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const auto shrink = [&](Index begin, Index end) {
      for (Index item = begin; item < end; ++item) {
        const Index at = item / tiles * 2, j = item % tiles * 4,
                    outputs = std::min<Index>(4, r - j);
        const Use first = uses[at], second = uses[std::min(at + 1, n - 1)];
        const auto factors = [&](const Use& use) { return a.at<const T>(use.adapter, j); };
        const auto result = [&](const Use& use) { return y.at<float>(use.token) + j; };
        const T *u = x.at<const T>(first.token), *v = x.at<const T>(second.token);
        if (at + 1 < n && first.adapter == second.adapter) {
          ShrinkRows<2, T>({u, v}, factors(first), a.stride(1), k, outputs, scale,
                           {result(first), result(second)});
          continue;
        }
        ShrinkRows<1, T>({u}, factors(first), a.stride(1), k, outputs, scale, {result(first)});
        if (at + 1 < n) {
          ShrinkRows<1, T>({v}, factors(second), a.stride(1), k, outputs, scale, {result(second)});
        }
      }
    };
    ctx.ParallelFor(pairs * tiles, 20000 / (8 * k + 100) + 1, shrink);
  });
}

}  // namespace
}  // namespace anyop::ops
