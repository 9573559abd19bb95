// SPDX-License-Identifier: Apache-2.0
#include "ops/common/attention/reference.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& query, const Tensor& key_cache, const Tensor& value_cache,
         const Tensor& block_table, const Tensor& seq_lens, const Tensor* query_start_loc,
         std::optional<double> scale, bool causal, std::int64_t window_left,
         std::int64_t window_right, double softcap, const Tensor* alibi_slopes, const Tensor* sinks,
         const Tensor* k_scale, const Tensor* v_scale, bool return_lse, const Tensor& y,
         const Tensor& lse) {
  const bool is_quantized = Bytes(key_cache.type()) == 1;  // else scales have no meaning
  const reference::Options options{scale,
                                   causal,
                                   window_left,
                                   window_right,
                                   softcap,
                                   alibi_slopes,
                                   sinks,
                                   is_quantized ? k_scale : nullptr,
                                   is_quantized ? v_scale : nullptr};
  const std::int64_t group = query.dim(1) / key_cache.dim(2), bs = key_cache.dim(1);
  const Tensor* lse_or_null = return_lse ? &lse : nullptr;
  std::int64_t token = 0;
  for (std::int64_t s = 0; s < seq_lens.dim(0); ++s) {
    const std::int64_t end = query_start_loc ? ReadIndex(*query_start_loc, s + 1) : s + 1;
    const std::int64_t queries = end - token;
    const std::int64_t keys = std::max<std::int64_t>(ReadIndex(seq_lens, s), 0);
    for (std::int64_t i = 0; i < queries; ++i, ++token) {
      for (std::int64_t h = 0; h < query.dim(1); ++h) {
        const auto offset = [&](const Tensor& cache, std::int64_t j) -> std::int64_t {
          const std::int64_t block = ReadIndex(block_table, s * block_table.stride(0) + j / bs);
          if (block < 0) return -1;
          return block * cache.stride(0) + j % bs * cache.stride(1) + h / group * cache.stride(2);
        };
        reference::AttendRow(
            options, {token, h, i + keys - queries, keys}, query, key_cache, value_cache,
            [&](std::int64_t j) { return offset(key_cache, j); },
            [&](std::int64_t j) { return offset(value_cache, j); }, y, lse_or_null);
      }
    }
  }
  for (; token < query.dim(0); ++token) reference::AttendPadding(token, y, lse_or_null);
}

}  // namespace

extern constinit const Reference paged_attention_reference{.op = "paged_attention",
                                                           .run = Bind<&Run>()};

}  // namespace anyop::ops
