// SPDX-License-Identifier: Apache-2.0
// pack_weight: arranges the weight of a linear layer so that linear_packed reads it in order.
//
//   packed[..., a, z, j, w] = weight[..., 32a + j, 2z + w], zero where that is out of range
//
//   weight  one row per output feature; rows may be strided; several weights (of experts) are
//           packed one by one
//
// Numerics  a copy, bit for bit.
// Source    definition; 32 columns by 2 along k suit f32 and bf16 alike on AVX2, AVX-512 and with
//           dot instructions.

#include <algorithm>

#include "ops/linear/linear.h"

namespace anyop::ops {
namespace {

// A result with gaps: element by element.
template <class T>
void PackWithGaps(const Tensor& weight, const Tensor& packed) {
  const std::int64_t n = weight.dim(-2), k = weight.dim(-1);
  const std::int64_t panels = packed.dim(-4), pairs = packed.dim(-3);
  for (std::int64_t r = 0; r < packed.rows(); ++r) {
    T* pair = packed.base<T>() + packed.row_offset(r);
    const std::int64_t panel = r / kPanel / pairs;
    const std::int64_t row = panel % panels * kPanel + r % kPanel, l = r / kPanel % pairs * 2;
    const T* from =
        row < n ? weight.base<const T>() + weight.row_offset(panel / panels * n + row) : nullptr;
    for (std::int64_t w = 0; w < 2; ++w) pair[w] = from && l + w < k ? from[l + w] : T{};
  }
}

template <class T>
void Pack(const Context& ctx, const Tensor& weight, const Tensor& packed) {
  const std::int64_t n = weight.dim(-2), k = weight.dim(-1), stride = weight.stride(-2);
  const std::int64_t panels = packed.dim(-4), panel = packed.dim(-3) * 2 * kPanel;
  if (!packed.is_contiguous()) return PackWithGaps<T>(weight, packed);
  const std::int64_t all = n ? weight.rows() / n * panels : 0;
  ctx.ParallelFor(all, 8000 / (panel + 1) + 1, [&](std::int64_t b, std::int64_t e) {
    for (std::int64_t a = b; a < e; ++a) {
      const std::int64_t first = a % panels * kPanel,
                         rows = std::min<std::int64_t>(n - first, kPanel);
      PackPanel(weight.base<const T>() + weight.row_offset(a / panels * n + first), stride, rows, k,
                packed.base<T>() + a * panel);
    }
  });
}

// Only the size of an element matters: f16 and bf16 are the same copy.
void Run(const Context& ctx, const Tensor& weight, const Tensor& packed) {
  if (weight.type() == DType::kF32) return Pack<float>(ctx, weight, packed);
  Pack<std::uint16_t>(ctx, weight, packed);
}

}  // namespace

ANYOP_KERNEL(pack_weight){.run = Bind<&Run>()};

extern constinit const Op pack_weight{
    .signature =
        "pack_weight(weight: T[..., n, k]) -> (packed: T[..., ceil_div(n, 32), ceil_div(k, 2), "
        "32, 2]) where T in f32 | f16 | bf16",
};

}  // namespace anyop::ops
