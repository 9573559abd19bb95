// SPDX-License-Identifier: Apache-2.0
// pack_u4: arranges rows of 4 bits an element so that linear_u4_packed reads them in order.
//
//   byte b of packed[a, l] holds q[16a + 2b, l] in its low 4 bits and q[16a + 2b + 1, l] in its
//   high ones; rows beyond n are zero
//
//   weight  rows as linear_u4 takes them: q[j, l] is in byte l/2, even l in its low 4 bits
//
// Numerics  A copy, bit for bit.
// Source    vLLM 0.27.1: q_weight of cpu_gemm_wna16.

#include <algorithm>

#include "anyop/op.h"
#include "ops/linear_u4/words.h"

namespace anyop::ops {
namespace {

void Run(const Context& ctx, const Tensor& weight, const Tensor& packed) {
  const std::int64_t n = weight.dim(0), k = packed.dim(1);
  const bool is_dense = packed.is_contiguous();
  ctx.ParallelFor(packed.dim(0), 4000 / (8 * k + 1) + 1, [&](std::int64_t b, std::int64_t e) {
    std::uint8_t words[2 * kWordBytes];
    for (std::int64_t a = b; a < e; ++a) {
      const RowsOfWords rows{weight.base<const std::uint8_t>(), k / 2, n};
      if (is_dense) rows.Pack(a, 0, k, packed.base<std::uint8_t>() + a * k * kWordBytes);
      for (std::int64_t l = 0; l < k && !is_dense; l += 2) {
        rows.Pack(a, l, 2, words);
        for (int w = 0; w < 2; ++w) {
          std::copy_n(words + w * kWordBytes, kWordBytes, packed.at<std::uint8_t>(a, l + w));
        }
      }
    }
  });
}

}  // namespace

ANYOP_KERNEL(pack_u4){.run = Bind<&Run>()};

extern constinit const Op pack_u4{
    .signature = "pack_u4(weight: dense u8[n, k2]) -> (packed: u8[ceil_div(n, 16), 2*k2, 8])",
};

}  // namespace anyop::ops
