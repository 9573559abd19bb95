// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "ops/common/latent/reference.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& q_nope, const Tensor& q_rope, const Tensor& kv_cache,
         const Tensor& rope_cache, const Tensor& indices, double scale, const Tensor* block_table,
         const Tensor* seq_lens, const Tensor* query_start_loc, const Tensor* sinks,
         bool return_lse, std::string_view word, const Tensor& y, const Tensor& lse) {
  const std::int64_t bs = kv_cache.dim(1);
  std::int64_t sequence = 0;
  for (std::int64_t token = 0; token < y.dim(0); ++token) {
    std::vector<KeyPlace> keys;
    bool is_padding = false;
    if (word == "logical") {
      while (sequence < seq_lens->dim(0) && ReadIndex(*query_start_loc, sequence + 1) <= token) {
        ++sequence;
      }
      is_padding = sequence == seq_lens->dim(0);
    }
    for (std::int64_t i = 0; i < indices.dim(1) && !is_padding; ++i) {
      const std::int64_t index = ReadIndex(indices, token * indices.stride(0) + i);
      if (index < 0) continue;
      std::int64_t block = index / bs;
      if (word == "logical") {
        if (index >= ReadIndex(*seq_lens, sequence)) continue;
        block = ReadIndex(*block_table, sequence * block_table->stride(0) + block);
      }
      if (block >= 0) keys.push_back({block, index % bs});
    }
    const reference::Latents latents{q_nope,   q_rope,
                                     kv_cache, rope_cache,
                                     scale,    is_padding ? nullptr : sinks,
                                     y,        return_lse ? &lse : nullptr};
    for (std::int64_t h = 0; h < y.dim(1); ++h) reference::AttendHead(latents, token, h, keys);
  }
}

}  // namespace

extern constinit const Reference sparse_attention_reference{.op = "sparse_attention",
                                                            .run = Bind<&Run>()};

}  // namespace anyop::ops
