// SPDX-License-Identifier: Apache-2.0
// The kernel of every instruction set: each file that includes this compiles it with its own flags.
#pragma once
#include <string_view>

#include "ops/common/latent/latent.h"
#include "ops/sparse_attention/places.h"

namespace anyop::ops {
namespace {

constexpr SizeText SparseBytes() { return LatentBytes("n"); }

// The keys that a row of indices lists.
class ListedKeys {
 public:
  ListedKeys(const IndexedKeys& places, std::int64_t indices)
      : places_(places), indices_(indices) {}

  std::int64_t Positions(std::int64_t token) const {
    return places_.Sequence(token) < 0 ? -1 : indices_;
  }
  template <class F>
  void ForTiles(std::int64_t token, std::int64_t begin, std::int64_t end, F&& add) const {
    const std::int64_t sequence = places_.Sequence(token);
    KeyPlace tile[kTileRows];
    int filled = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const KeyPlace key = places_.Find(token, sequence, i);
      if (key.block < 0) continue;
      tile[filled++] = key;
      if (filled < kTileRows) continue;
      add(tile, filled);
      filled = 0;
    }
    add(tile, filled);
  }

 private:
  const IndexedKeys& places_;
  std::int64_t indices_;
};

template <class Form>
void Run(const Context& ctx, const Tensor& q_nope, const Tensor& q_rope, const Tensor& kv_cache,
         const Tensor& rope_cache, const Tensor& indices, float scale, const Tensor* block_table,
         const Tensor* seq_lens, const Tensor* query_start_loc, const Tensor* sinks,
         bool return_lse, std::string_view index, const Tensor& y, const Tensor& lse) {
  const float* sink_row = sinks ? sinks->base<const float>() : nullptr;
  const LatentCall call{q_nope, q_rope,   kv_cache, rope_cache,
                        scale,  sink_row, y,        return_lse ? &lse : nullptr};
  const IndexedKeys places(indices, kv_cache.dim(1), block_table, seq_lens, query_start_loc,
                           index == "physical");
  const ListedKeys keys(places, indices.dim(1));
  LatentRun<Form, ListedKeys>(ctx, call, keys, indices.dim(1)).Run();
}

}  // namespace
}  // namespace anyop::ops
