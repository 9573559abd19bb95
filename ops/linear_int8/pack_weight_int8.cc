// SPDX-License-Identifier: Apache-2.0
// pack_weight_int8: arranges a weight of bytes so that linear_int8_packed reads it in order.
//
//   packed[..., a, z, j, w] = weight[..., 32a + j, 4z + w], zero where that is out of range
//
//   weight  one row per output feature; rows may be strided; several weights (of experts) are
//           packed one by one
//
// Numerics  a copy.
// Source    definition; 32 columns by 4 along k suit dot instructions and widened bytes alike.

#include "ops/linear_int8/linear_int8.h"

namespace anyop::ops {
namespace {

// A result with gaps: four bytes at a time.
void PackWithGaps(const Tensor& weight, const Tensor& packed) {
  const std::int64_t n = weight.dim(-2), k = weight.dim(-1);
  const std::int64_t panels = packed.dim(-4), fours = packed.dim(-3);
  for (std::int64_t r = 0; r < packed.rows(); ++r) {
    std::int8_t* to = packed.base<std::int8_t>() + packed.row_offset(r);
    const std::int64_t panel = r / kPanel / fours;
    const std::int64_t row = panel % panels * kPanel + r % kPanel, l = r / kPanel % fours * 4;
    const std::int8_t* from =
        row < n ? weight.base<const std::int8_t>() + weight.row_offset(panel / panels * n + row)
                : nullptr;
    for (std::int64_t w = 0; w < 4; ++w) to[w] = from && l + w < k ? from[l + w] : std::int8_t(0);
  }
}

void Run(const Context& ctx, const Tensor& weight, const Tensor& packed) {
  const std::int64_t n = weight.dim(-2), k = weight.dim(-1), stride = weight.stride(-2);
  const std::int64_t panels = packed.dim(-4), panel = packed.dim(-3) * 4 * kPanel;
  if (!packed.is_contiguous()) return PackWithGaps(weight, packed);
  const std::int64_t all = n ? weight.rows() / n * panels : 0;
  ctx.ParallelFor(all, 16000 / (panel + 1) + 1, [&](std::int64_t b, std::int64_t e) {
    for (std::int64_t a = b; a < e; ++a) {
      const std::int64_t first = a % panels * kPanel;
      PackPanel(weight.base<const std::int8_t>() + weight.row_offset(a / panels * n + first),
                stride, std::min<std::int64_t>(n - first, kPanel), k,
                reinterpret_cast<I8x2*>(packed.base<std::int8_t>() + a * panel));
    }
  });
}

}  // namespace

ANYOP_KERNEL(pack_weight_int8){.run = Bind<&Run>()};

extern constinit const Op pack_weight_int8{
    .signature =
        "pack_weight_int8(weight: i8[..., n, k]) -> (packed: i8[..., ceil_div(n, 32), "
        "ceil_div(k, 4), 32, 4])",
};

}  // namespace anyop::ops
