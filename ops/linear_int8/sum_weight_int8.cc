// SPDX-License-Identifier: Apache-2.0
// sum_weight_int8: what linear_int8_quantized_packed subtracts for each step of a zero point of x.
//
//   sum[..., j] = sum_l weight[..., j, l]
//
//   weight  one row per output feature; rows may be strided
//
// Numerics  Exact.
// Source    definition.

#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context& ctx, const Tensor& weight, const Tensor& sum) {
  const std::int64_t k = weight.dim(-1);
  ctx.ForRows(
      weight,
      [&](std::int64_t r) {
        const std::int8_t* row = weight.base<const std::int8_t>() + weight.row_offset(r);
        std::int32_t total = 0;
        for (std::int64_t l = 0; l < k; ++l) total += row[l];
        // Rows of the weight are elements of the result.
        const std::int64_t n = weight.dim(-2);
        sum.base<std::int32_t>()[sum.row_offset(r / n) + r % n] = total;
      },
      0.05);
}

}  // namespace

ANYOP_KERNEL(sum_weight_int8){.run = Bind<&Run>()};

extern constinit const Op sum_weight_int8{
    .signature = "sum_weight_int8(weight: i8[..., n, k]) -> (sum: i32[..., n]) where k <= 131071",
    .flops = "size(weight)",
};

}  // namespace anyop::ops
