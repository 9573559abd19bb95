// SPDX-License-Identifier: Apache-2.0
// The gradients of a dense layer, for one math type each.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "anyop/op.h"
#include "ops/common/gemm/chunks.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// dbias[j] = sum over the rows of dy, in ascending order, in chunks: a long sum of equal terms
// would round in one direction at every step. 1,030 equal terms in one f32 sum err by 174 ulp.
template <class U, class T>
inline void SumRows(const Context& ctx, const Tensor& dy, const Tensor& dbias) {
  constexpr int kWide = 8;  // vectors: a line or more of each row at a time
  constexpr std::int64_t kChunk = 64;
  const Rows<U> rows(dy);
  const std::int64_t n = dy.rows();
  const auto sum = [&](std::int64_t j, auto count, auto vectors) [[gnu::always_inline]] {
    F32 sums[vectors.value];
    for (F32& s : sums) s = Zero();
    for (std::int64_t chunk = 0; chunk < n; chunk += kChunk) {
      F32 part[vectors.value];
      for (F32& s : part) s = Zero();
      for (std::int64_t i = chunk; i < std::min(n, chunk + kChunk); ++i) {
        F32 row[vectors.value];
        LoadAll(row, rows[i] + j, count);
#pragma GCC unroll 8
        for (int v = 0; v < vectors.value; ++v) part[v] += row[v];
      }
      for (int v = 0; v < vectors.value; ++v) sums[v] += part[v];
    }
    StoreAll(dbias.base<T>() + j, sums, count);
  };
  const std::int64_t columns = dy.row_size(), blocks = columns / (kWide * kLanes);
  const std::int64_t grain = 2000 / (n * kWide / 4 + 1) + 1;  // 2 us, 4 vectors a nanosecond
  ctx.ParallelFor(blocks, grain, [&](std::int64_t b, std::int64_t e) {
    for (std::int64_t i = b; i < e; ++i) {
      sum(i * kWide * kLanes, kFull, std::integral_constant<int, kWide>{});
    }
  });
  const std::int64_t done = blocks * kWide * kLanes;
  ForLanes(columns - done, [&](std::int64_t j, auto count) {
    sum(done + j, count, std::integral_constant<int, 1>{});
  });
}

// The workspace of the two products, dy weight and dy^T x, which run one after the other: the
// larger one of theirs.
template <class M>
constexpr SizeText LinearBackwardBytes() {
  const SizeText threads = "threads", rows = "rows(x)", n = "n", k = "k";
  return Max(ChunksWorkspace<M, SizeText>(threads, rows, n, k).bytes(),
             ChunksWorkspace<M, SizeText>(threads, n, rows, k).bytes());
}

// Compiled once for each instruction set where dy has the type of the rest, as Tiles is.
template <class M, class U>
void LinearGradients(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& weight,
                     const Tensor* dx, const Tensor* dweight, const Tensor* dbias) {
  using T = typename M::Weight;
  const std::int64_t rows = x.rows(), n = weight.dim(0), k = weight.dim(1);
  if (dx && rows && k) {
    const DenseProduct<T, NoRows> p{{nullptr, *dx, k, Activation::kNone}, {}, rows, n};
    MultiplyChunks<M>(ctx, p, LeftRows<U>{Rows<U>(dy)}, RightRows<T>{Rows<T>(weight)});
  }
  if (dweight && n && k) {
    const DenseProduct<T, NoRows> p{{nullptr, *dweight, k, Activation::kNone}, {}, n, rows};
    MultiplyChunks<M>(ctx, p, LeftColumns<U>{Rows<U>(dy)}, RightRows<T>{Rows<T>(x)});
  }
  if (dbias && n) SumRows<U, T>(ctx, dy, *dbias);
}

#define ANYOP_LINEAR_GRADIENTS(M)                                                           \
  template void LinearGradients<M, M::Weight>(const Context&, const Tensor&, const Tensor&, \
                                              const Tensor&, const Tensor*, const Tensor*,  \
                                              const Tensor*)
extern ANYOP_LINEAR_GRADIENTS(PairMath<float>);
extern ANYOP_LINEAR_GRADIENTS(PairMath<F16>);
extern ANYOP_LINEAR_GRADIENTS(SplitMath);
#if defined(__AVX512BF16__)
extern ANYOP_LINEAR_GRADIENTS(BF16DotMath);
#endif

template <class M>
void RunLinearBackward(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& weight,
                       std::string_view, const Tensor* dx, const Tensor* dweight,
                       const Tensor* dbias) {
  if constexpr (std::is_same_v<typename M::Left, float>) {
    if (dy.type() == DType::kF32) {
      return LinearGradients<M, float>(ctx, dy, x, weight, dx, dweight, dbias);
    }
    if (dy.type() == DType::kF16) {
      return LinearGradients<M, F16>(ctx, dy, x, weight, dx, dweight, dbias);
    }
  }
  LinearGradients<M, BF16>(ctx, dy, x, weight, dx, dweight, dbias);
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
