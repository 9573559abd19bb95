// SPDX-License-Identifier: Apache-2.0
// pack_blocks: arranges rows of blocks so that linear_blocks_packed reads them in order.
//
//   packed[a, b]: block b of rows 16a to 16a + 15: 16 f16 d, (q4_1: 16 f16 m,) then for each 4
//   neighbours along k, 16 rows x 4 bytes; rows beyond n are zero
//
//   weight  rows of blocks, as linear_blocks takes them
//   format  q8_0: group g of 8 holds k = 4g to 4g + 3. 4 bits: group g of 4 holds these in its low
//           bits and k = 4g + 16 to 4g + 19 in its high bits. 5 bits: before these groups, one
//           whose bit g is the fifth bit of k = 4g to 4g + 3. A superblock keeps the order of its
//           fields: scales, 4 bytes of each row at a time; fifth bits of one part of 32 elements
//           after another; low bits likewise; q6_K: two groups a part of two high bits, bits 2g and
//           2g + 1 those of k = 4g to 4g + 3, and of k = 4g + 16 to 4g + 19
//
// Numerics  a copy, bit for bit; no byte more than the rows have.
// Source    definition; 16 rows suit vectors of 4, 8 and 16 lanes alike.

#include "ops/linear_blocks/pack.h"

#include <algorithm>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

// Groups of a result with gaps are packed block by block.
template <class F>
void Pack(const Context& ctx, const Tensor& weight, const Tensor& packed) {
  const std::int64_t n = weight.dim(0), blocks = packed.dim(1),
                     bytes = blocks * kGroupBlockBytes<F>;
  const bool is_dense = packed.is_contiguous();
  ctx.ParallelFor(packed.dim(0), 20000 / (bytes + 1) + 1, [&](std::int64_t b, std::int64_t e) {
    for (std::int64_t a = b; a < e; ++a) {
      const char* from = weight.base<const char>() + a * bytes;
      const std::int64_t rows = std::min<std::int64_t>(n - a * kGroupRows, kGroupRows);
      if (is_dense) PackGroup<F>(from, rows, blocks, blocks, from + bytes, packed.at<char>(a, 0));
      for (std::int64_t i = 0; i < blocks && !is_dense; ++i) {
        PackGroup<F>(from + i * F::kBytes, rows, blocks, 1, from, packed.at<char>(a, i));
      }
    }
  });
}

void Run(const Context& ctx, const Tensor& weight, std::string_view format, const Tensor& packed) {
  VisitFormat(format, [&](auto f) { Pack<decltype(f)>(ctx, weight, packed); });
}

}  // namespace

ANYOP_KERNEL(pack_blocks){.run = Bind<&Run>()};

extern constinit const Op pack_blocks{
    .signature =
        "pack_blocks(weight: dense u8[n, 18*g], format: 'q4_0') -> (packed: u8[ceil_div(n, 16), g, "
        "288])\n"
        "pack_blocks(weight: dense u8[n, 20*g], format: 'q4_1') -> (packed: u8[ceil_div(n, 16), g, "
        "320])\n"
        "pack_blocks(weight: dense u8[n, 34*g], format: 'q8_0') -> (packed: u8[ceil_div(n, 16), g, "
        "544])\n"
        "pack_blocks(weight: dense u8[n, 22*g], format: 'q5_0') -> (packed: u8[ceil_div(n, 16), g, "
        "352])\n"
        "pack_blocks(weight: dense u8[n, 24*g], format: 'q5_1') -> (packed: u8[ceil_div(n, 16), g, "
        "384])\n"
        "pack_blocks(weight: dense u8[n, 144*s], format: 'q4_K') -> (packed: u8[ceil_div(n, 16), "
        "s, 2304])\n"
        "pack_blocks(weight: dense u8[n, 176*s], format: 'q5_K') -> (packed: u8[ceil_div(n, 16), "
        "s, 2816])\n"
        "pack_blocks(weight: dense u8[n, 210*s], format: 'q6_K') -> (packed: u8[ceil_div(n, 16), "
        "s, 3360])",
};

}  // namespace anyop::ops
