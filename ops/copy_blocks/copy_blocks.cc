// SPDX-License-Identifier: Apache-2.0
// copy_blocks: copies blocks inside every cache of a list.
//
//   caches[l][to] = caches[l][from]     for every cache l and every pair (from, to) = mapping[i]
//
//   caches   each block flattened to a row; rows may have gaps between them
//   mapping  pairs of block numbers; a pair with a negative entry is skipped
//
// Numerics  Blocks are copied bit for bit. A block that is both source and target, or twice a
//           target, ends up with one of the possible contents: check mode refuses it.
// Source    vLLM, copy_blocks.
#include "ops/common/blocks/block_pairs.h"

namespace anyop::ops {
namespace {

using Caches = std::span<const Tensor* const>;

void Check(const Context&, std::span<const TensorShape* const> caches, const Tensor& mapping) {
  if (caches.empty()) return;
  const std::int64_t blocks = caches[0]->dim(0);
  CheckPairs(mapping, blocks, "blocks of every cache", blocks, "blocks of every cache");
}

void CheckData(const Context&, Caches, const Tensor& mapping) {
  CheckOrderIsNoMatter(mapping, /*is_one_cache=*/true);
}

void Run(const Context& ctx, Caches caches, const Tensor& mapping) {
  const std::int64_t pairs = mapping.dim(0);
  if (caches.empty() || pairs == 0) return;
  const std::int64_t copies = std::int64_t(caches.size()) * pairs;
  const BlockCopier copier(ctx, copies, *caches[0]);
  ctx.ParallelFor(copies, BlockGrain(*caches[0]), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Tensor& cache = *caches[std::size_t(i / pairs)];
      const BlockPair pair = ReadPair(mapping, i % pairs);
      if (!pair.is_skipped()) copier.Copy(cache, cache, pair);
    }
    copier.End();
  });
}

}  // namespace

ANYOP_KERNEL(copy_blocks){.run = Bind<&Run>()};

extern constinit const Op copy_blocks{
    .signature =
        "copy_blocks(caches: mut C[nb, w]*, mapping: I[n, 2]) -> () "
        "where C in f32 | f16 | bf16 | i8 | f8e4m3 | u8, I in i32 | i64",
    .bytes = "2 * len(caches) * n * w * bytes(C)",
    .check = Bind<&Check>(),
    .check_data = Bind<&CheckData>(),
};

}  // namespace anyop::ops
