// SPDX-License-Identifier: Apache-2.0
// The kernels of linear and linear_packed, for one math type each.
#pragma once
#include <cstdint>
#include <string_view>

#include "anyop/op.h"
#include "ops/common/gemm/pack.h"
#include "ops/common/gemm/packed.h"
#include "ops/common/gemm/rows.h"
#include "ops/common/gemm/weight_tiles.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Only rows of f32 gain by copies, and none shorter than kCopiedTerms.
inline constexpr std::int64_t kCopiedTerms = 64;
template <class M>
inline constexpr bool kCopiesRows = sizeof(typename M::Weight) == 4;

template <class M>
constexpr SizeText LinearBytes() {
  const SizeText rows = "rows(x)", k = "k";
  const SizeText packing =
      PackedWorkspace<M, SizeText>("threads", rows, CeilDiv(k, SizeText(2)),
                                   CeilDiv(SizeText("n"), SizeText(kPanel)), true)
          .bytes();
#if defined(__AMX_BF16__)
  if (kIsAmx<M>) return Max(packing, ColumnsWorkspace<SizeText>(rows, k).bytes());
#endif
  if (!kCopiesRows<M>) return packing;
  const SizeText few = Min(rows, SizeText(kMaxRows));
  return Max(packing, CopiesWorkspace<typename M::Weight, SizeText>(few, k).bytes());
}
template <class M>
constexpr SizeText LinearPackedBytes() {
  return PackedWorkspace<M, SizeText>("threads", "rows(x)", "k2", "n32", false).bytes();
}

template <class M>
void RunLinear(const Context& ctx, const Tensor& x, const Tensor& weight, const Tensor* bias,
               std::string_view activation, std::string_view, const Tensor& y) {
  using T = typename M::Weight;
  const DenseProduct<T> p{
      {bias, y, weight.dim(0), ParseActivation(activation)}, {x}, x.rows(), x.row_size()};
  if (p.rows == 0 || p.n == 0) return;
#if defined(__AMX_BF16__)
  // The same sums as those of panels that are packed.
  if (kIsAmx<M> && p.n >= kPanel && p.rows >= kTiledRows && p.rows <= kMostTiledRows)
    return MultiplyByTiles(ctx, p, weight);
#endif
  // The two ways differ in the order of their sums, so batch-invariant mode keeps to one.
  if (p.rows <= kMaxRows && !ctx.batch_invariant()) {
    if constexpr (kCopiesRows<M>) {
      if (p.rows > 2 && p.k >= kCopiedTerms) {
        return MultiplyByRows<M>(ctx, CopyRows(ctx, p), weight);
      }
    }
    return MultiplyByRows<M>(ctx, p, weight);
  }
  const PackedWorkspace<M, std::int64_t> parts(ThreadsOf(ctx), p.rows, p.steps(), p.panels(), true);
  MultiplyPacking<M>(ctx, p, Placed(ctx, parts), parts, weight.base<const typename M::Weight>(),
                     weight.stride(0));
}

template <class M>
void RunLinearPacked(const Context& ctx, const Tensor& x, const Tensor& packed,
                     std::int64_t features, const Tensor* bias, std::string_view activation,
                     std::string_view, const Tensor& y) {
  using T = typename M::Weight;
  const DenseProduct<T> p{
      {bias, y, features, ParseActivation(activation)}, {x}, x.rows(), x.row_size()};
  if (p.rows == 0 || p.n == 0) return;
  const PackedWorkspace<M, std::int64_t> parts(ThreadsOf(ctx), p.rows, p.steps(), p.panels(),
                                               false);
  MultiplyPacked<M>(ctx, p, Placed(ctx, parts), parts, packed.base<const typename M::Weight>());
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
