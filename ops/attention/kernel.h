// SPDX-License-Identifier: Apache-2.0
// The kernel of every instruction set: each file that includes this compiles it with its own flags.
#pragma once
#include "anyop/op.h"
#include "ops/common/attention/run.h"

namespace anyop::ops {
namespace {

constexpr SizeText AttentionBytes() {
  const AttentionDims<SizeText> sizes{"threads", "b", "tq", "hq", "hkv", "tk", "dk", "dv"};
  return AttentionWorkspace<SizeText>(sizes).bytes();
}
// Where the machine decides between dot instructions and FMA.
constexpr const char* kProbe = "tq = 32, tk = 64, b = 1, hq = 2, hkv = 1, dk = 64, dv = 64";

// kHasTiles: many rows are multiplied with tiles.
template <bool kHasTiles = false>
void Run(const Context& ctx, const Tensor& query, const Tensor& key, const Tensor& value,
         const Tensor& query_start_loc, const Tensor& key_start_loc, std::optional<float> scale,
         bool causal, std::int64_t window_left, std::int64_t window_right, float softcap,
         const Tensor* alibi_slopes, const Tensor* sinks, bool return_lse, const Tensor& y,
         const Tensor& lse) {
  const AttentionCall call{
      .options = MakeOptions(scale, query.dim(2), causal, window_left, window_right, softcap,
                             alibi_slopes, sinks),
      .store = {.keys = key, .values = value, .table = nullptr, .extent = key_start_loc},
      .query = query,
      .query_start_loc = &query_start_loc,
      .sequences = query_start_loc.dim(0) - 1,
      .y = y,
      .lse = return_lse ? &lse : nullptr,
      .tiles = kHasTiles ? &amx_attention_tiles : nullptr};
  RunAttention(ctx, call);
}

}  // namespace
}  // namespace anyop::ops
