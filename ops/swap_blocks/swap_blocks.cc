// SPDX-License-Identifier: Apache-2.0
// swap_blocks: copies blocks of one cache into another (the name is the one in use elsewhere).
//
//   dst[to] = src[from]     for every pair (from, to) = mapping[i]
//
//   src, dst  each block flattened to a row; rows may have gaps between them
//   mapping   pairs of block numbers; a pair with a negative entry is skipped
//
// Numerics  Blocks are copied bit for bit. Of two pairs with one target either wins: check mode
//           refuses them.
// Source    vLLM, swap_blocks.
#include "ops/common/blocks/block_pairs.h"

namespace anyop::ops {
namespace {

void Check(const Context&, const TensorShape& src, const TensorShape& dst, const Tensor& mapping) {
  CheckPairs(mapping, src.dim(0), "blocks of src", dst.dim(0), "blocks of dst");
}

void CheckData(const Context&, const Tensor&, const Tensor&, const Tensor& mapping) {
  CheckOrderIsNoMatter(mapping, /*is_one_cache=*/false);
}

void Run(const Context& ctx, const Tensor& src, const Tensor& dst, const Tensor& mapping) {
  const BlockCopier copier(ctx, mapping.dim(0), src);
  ctx.ParallelFor(mapping.dim(0), BlockGrain(src), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const BlockPair pair = ReadPair(mapping, i);
      if (!pair.is_skipped()) copier.Copy(src, dst, pair);
    }
    copier.End();
  });
}

}  // namespace

ANYOP_KERNEL(swap_blocks){.run = Bind<&Run>()};

extern constinit const Op swap_blocks{
    .signature =
        "swap_blocks(src: C[ns, w], dst: mut C[nd, w], mapping: I[n, 2]) -> () "
        "where C in f32 | f16 | bf16 | i8 | f8e4m3 | u8, I in i32 | i64",
    .bytes = "2 * n * w * bytes(C)",
    .check = Bind<&Check>(),
    .check_data = Bind<&CheckData>(),
};

}  // namespace anyop::ops
