// SPDX-License-Identifier: Apache-2.0
// The kernel of every instruction set: each file that includes this compiles it with its own flags.
#pragma once
#include <string_view>

#include "ops/common/latent.h"
#include "ops/sparse_attention/places.h"

namespace anyop::ops {
namespace {

void Run(const Context& ctx, const Tensor& q_nope, const Tensor& q_rope, const Tensor& kv_cache,
         const Tensor& rope_cache, const Tensor& indices, float scale, const Tensor* block_table,
         const Tensor* seq_lens, const Tensor* query_start_loc, const Tensor* sinks,
         bool return_lse, std::string_view index, const Tensor& y, const Tensor& lse) {
  const float* sink_row = sinks ? sinks->base<const float>() : nullptr;
  const LatentCall call{q_nope, q_rope,   kv_cache, rope_cache,
                        scale,  sink_row, y,        return_lse ? &lse : nullptr};
  const IndexedKeys places(indices, kv_cache.dim(1), block_table, seq_lens, query_start_loc,
                           index == "physical");
  RunLatents(ctx, call, double(indices.size()), [&](std::int64_t token, auto&& add_tile) {
    const std::int64_t sequence = places.Sequence(token), n = indices.dim(1);
    if (sequence < 0) return false;
    KeyPlace tile[kTileRows];
    int filled = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const KeyPlace key = places.Find(token, sequence, i);
      if (key.block < 0) continue;
      tile[filled++] = key;
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
