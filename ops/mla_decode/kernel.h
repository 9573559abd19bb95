// SPDX-License-Identifier: Apache-2.0
// The kernel of every instruction set: each file that includes this compiles it with its own flags.
#pragma once
#include "ops/common/latent/latent.h"

namespace anyop::ops {
namespace {

constexpr SizeText MlaBytes() { return LatentBytes(SizeText("mb") * SizeText("bs")); }

// The keys that a token sees of its sequence.
class SeenKeys {
 public:
  SeenKeys(const Tensor& table, const Tensor& lens, const Tensor* starts, std::int64_t block_size,
           bool causal)
      : table_(table), lens_(lens), starts_(starts), block_size_(block_size), causal_(causal) {}

  std::int64_t Positions(std::int64_t token) const {
    const TokenPlace at = Place(token);
    if (at.sequence == lens_.dim(0)) return -1;
    return CountSeenKeys(at, ReadIndex(lens_, at.sequence), causal_);
  }
  template <class F>
  void ForTiles(std::int64_t token, std::int64_t begin, std::int64_t end, F&& add) const {
    TableKeys keys(table_, Place(token).sequence, block_size_, begin, end);
    KeyPlace tile[kTileRows], next;
    int filled = 0;
    while (const std::int64_t n = keys.Next(kTileRows - filled, &next)) {
      for (std::int64_t i = 0; i < n; ++i) tile[filled++] = {next.block, next.offset + i};
      if (filled < kTileRows) continue;
      add(tile, filled);
      filled = 0;
    }
    add(tile, filled);
  }

 private:
  TokenPlace Place(std::int64_t token) const { return FindToken(starts_, lens_.dim(0), token); }

  const Tensor &table_, &lens_;
  const Tensor* starts_;
  std::int64_t block_size_;
  bool causal_;
};

template <class Form>
void Run(const Context& ctx, const Tensor& q_nope, const Tensor& q_rope, const Tensor& kv_cache,
         const Tensor& rope_cache, const Tensor& block_table, const Tensor& seq_lens,
         const Tensor* query_start_loc, float scale, bool causal, bool return_lse, const Tensor& y,
         const Tensor& lse) {
  const LatentCall call{q_nope, q_rope,  kv_cache, rope_cache,
                        scale,  nullptr, y,        return_lse ? &lse : nullptr};
  const std::int64_t block_size = kv_cache.dim(1);
  const SeenKeys keys(block_table, seq_lens, query_start_loc, block_size, causal);
  LatentRun<Form, SeenKeys>(ctx, call, keys, block_table.dim(1) * block_size).Run();
}

}  // namespace
}  // namespace anyop::ops
