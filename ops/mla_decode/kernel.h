// SPDX-License-Identifier: Apache-2.0
// The kernel of every instruction set: each file that includes this compiles it with its own flags.
#pragma once
#include "ops/common/latent.h"

namespace anyop::ops {
namespace {

void Run(const Context& ctx, const Tensor& q_nope, const Tensor& q_rope, const Tensor& kv_cache,
         const Tensor& rope_cache, const Tensor& block_table, const Tensor& seq_lens,
         const Tensor* query_start_loc, float scale, bool causal, bool return_lse, const Tensor& y,
         const Tensor& lse) {
  const LatentCall call{q_nope, q_rope,  kv_cache, rope_cache,
                        scale,  nullptr, y,        return_lse ? &lse : nullptr};
  const std::int64_t sequences = seq_lens.dim(0), block_size = kv_cache.dim(1);
  double pairs = 0;
  for (std::int64_t s = 0; s < sequences; ++s) {
    const std::int64_t queries =
        query_start_loc ? ReadIndex(*query_start_loc, s + 1) - ReadIndex(*query_start_loc, s) : 1;
    pairs += double(queries) * double(std::max<std::int64_t>(ReadIndex(seq_lens, s), 0));
  }
  RunLatents(ctx, call, pairs, [&](std::int64_t token, auto&& add_tile) {
    const TokenPlace at = FindToken(query_start_loc, sequences, token);
    if (at.sequence == sequences) return false;
    const std::int64_t seen = CountSeenKeys(at, ReadIndex(seq_lens, at.sequence), causal);
    TableKeys keys(block_table, at.sequence, block_size, 0, seen);
    KeyPlace tile[kTileRows], next;
    int filled = 0;
    while (const std::int64_t n = keys.Next(kTileRows - filled, &next)) {
      for (std::int64_t i = 0; i < n; ++i) tile[filled++] = {next.block, next.offset + i};
      if (filled < kTileRows) continue;
      add_tile(tile, filled);
      filled = 0;
    }
    add_tile(tile, filled);
    return true;
  });
}

}  // namespace
}  // namespace anyop::ops
