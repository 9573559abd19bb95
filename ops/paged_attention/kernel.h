// SPDX-License-Identifier: Apache-2.0
// The kernel of every instruction set: each file that includes this compiles it with its own flags.
#pragma once
#include "anyop/op.h"
#include "ops/common/attention/run.h"

namespace anyop::ops {
namespace {

constexpr SizeText AttentionBytes() {
  const AttentionDims<SizeText> sizes{"threads", "b", "t", "hq", "hkv", SizeText("mb") * "bs",
                                      "dk",      "dv"};
  return AttentionWorkspace<SizeText>(sizes).bytes();
}
// Where the machine decides between dot instructions and FMA.
constexpr const char* kProbe =
    "t = 1, b = 1, hq = 4, hkv = 1, dk = 64, dv = 64, nb = 8, bs = 16, mb = 16, "
    "seq_lens = 256";

// kHasTiles: many rows are multiplied with tiles.
template <bool kHasTiles = false>
void Run(const Context& ctx, const Tensor& query, const Tensor& key_cache,
         const Tensor& value_cache, const Tensor& block_table, const Tensor& seq_lens,
         const Tensor* query_start_loc, std::optional<float> scale, bool causal,
         std::int64_t window_left, std::int64_t window_right, float softcap,
         const Tensor* alibi_slopes, const Tensor* sinks, const Tensor* k_scale,
         const Tensor* v_scale, bool return_lse, const Tensor& y, const Tensor& lse) {
  // The scales are of caches of bytes only.
  const bool is_quantized = Bytes(key_cache.type()) == 1;
  const AttentionCall call{.options = MakeOptions(scale, query.dim(2), causal, window_left,
                                                  window_right, softcap, alibi_slopes, sinks),
                           .store = {.keys = key_cache,
                                     .values = value_cache,
                                     .table = &block_table,
                                     .extent = seq_lens,
                                     .k_scale = FloatsOrNull(is_quantized ? k_scale : nullptr),
                                     .v_scale = FloatsOrNull(is_quantized ? v_scale : nullptr)},
                           .query = query,
                           .query_start_loc = query_start_loc,
                           .sequences = seq_lens.dim(0),
                           .y = y,
                           .lse = return_lse ? &lse : nullptr,
                           .tiles = kHasTiles ? &amx_attention_tiles : nullptr};
  RunAttention(ctx, call);
}

}  // namespace
}  // namespace anyop::ops
