// SPDX-License-Identifier: Apache-2.0
#include "ops/common/latent/reference.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& q_nope, const Tensor& q_rope, const Tensor& kv_cache,
         const Tensor& rope_cache, const Tensor& block_table, const Tensor& seq_lens,
         const Tensor* query_start_loc, double scale, bool causal, bool return_lse, const Tensor& y,
         const Tensor& lse) {
  const reference::Latents latents{q_nope, q_rope,  kv_cache, rope_cache,
                                   scale,  nullptr, y,        return_lse ? &lse : nullptr};
  const std::int64_t bs = kv_cache.dim(1);
  std::int64_t token = 0;
  const auto attend = [&](const std::vector<KeyPlace>& keys) {
    for (std::int64_t h = 0; h < y.dim(1); ++h) reference::AttendHead(latents, token, h, keys);
  };
  for (std::int64_t s = 0; s < seq_lens.dim(0); ++s) {
    const std::int64_t end = query_start_loc ? ReadIndex(*query_start_loc, s + 1) : s + 1;
    const std::int64_t keys = ReadIndex(seq_lens, s), queries = end - token;
    for (std::int64_t i = 0; i < queries; ++i, ++token) {
      std::vector<KeyPlace> seen;
      for (std::int64_t j = 0; j < keys; ++j) {
        if (causal && j > i + keys - queries) continue;
        const std::int64_t block = ReadIndex(block_table, s * block_table.stride(0) + j / bs);
        if (block >= 0) seen.push_back({block, j % bs});
      }
      attend(seen);
    }
  }
  for (; token < y.dim(0); ++token) attend({});
}

}  // namespace

extern constinit const Reference mla_decode_reference{.op = "mla_decode", .run = Bind<&Run>()};

}  // namespace anyop::ops
