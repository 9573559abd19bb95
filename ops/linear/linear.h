// SPDX-License-Identifier: Apache-2.0
// The kernels of linear and linear_packed, for one math type each.
#pragma once
#include <cstdint>
#include <string_view>

#include "anyop/op.h"
#include "ops/common/gemm/pack.h"
#include "ops/common/gemm/packed.h"
#include "ops/common/gemm/rows.h"

// Workspace of linear_packed and linear: packed rows of x as f32 or in 16 bits; for linear panels
// of the weight too.
#define ANYOP_LINEAR_PACKED_WORKSPACE(bytes) "min(rows(x), 512) * k2 * 2 * " #bytes
#define ANYOP_LINEAR_WORKSPACE(bytes)                \
  "min(rows(x), 512) * ceil_div(k, 2) * 2 * " #bytes \
  " + 64 + threads * (64 * ceil_div(k, 2) * bytes(T) + 1)"

namespace anyop::ops {
inline namespace ANYOP_ISA {

template <class M>
void RunLinear(const Context& ctx, const Tensor& x, const Tensor& weight, const Tensor* bias,
               std::string_view activation, std::string_view, const Tensor& y) {
  const Product p{x, bias, y, ParseActivation(activation), x.rows(), x.row_size(), weight.dim(0)};
  if (p.rows == 0 || p.n == 0) return;
  // The two ways differ in the order of their sums, so batch-invariant mode keeps to one.
  if (p.rows <= kMaxRows && !ctx.batch_invariant()) {
    using T = typename M::Weight;
    // The workspace has room for copies from 64 terms on. Rows of 16 bits gain nothing by them.
    if constexpr (sizeof(T) == 4) {
      if (p.rows > 2 && p.k >= 64) {
        return MultiplyByRows<M>(ctx, CopyRows<T>(ctx, p), weight);
      }
    }
    return MultiplyByRows<M>(ctx, p, weight);
  }
  MultiplyPacking<M>(ctx, p, weight.base<const typename M::Weight>(), weight.stride(0));
}

template <class M>
void RunLinearPacked(const Context& ctx, const Tensor& x, const Tensor& packed,
                     std::int64_t features, const Tensor* bias, std::string_view activation,
                     std::string_view, const Tensor& y) {
  const Product p{x, bias, y, ParseActivation(activation), x.rows(), x.row_size(), features};
  if (p.rows == 0 || p.n == 0) return;
  MultiplyPacked<M>(ctx, p, packed.base<const typename M::Weight>());
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
