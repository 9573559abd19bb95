// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Set(const Tensor& t, std::int64_t i, std::int64_t value) {
  VisitIndex(t.type(), [&](auto zero) { *t.at<decltype(zero)>(i) = decltype(zero)(value); });
}

void Run(const Context&, const Tensor& input_tokens, const Tensor& sampled_token_ids,
         const Tensor& input_positions, const Tensor& seq_lens, const Tensor& slot_mapping,
         const Tensor& block_tables, std::int64_t block_size,
         std::optional<std::int64_t> num_queries) {
  for (std::int64_t i = 0; i < input_tokens.dim(0); ++i) {
    const std::int64_t pos = ReadIndex(seq_lens, i);
    if ((num_queries && i >= *num_queries) || pos < 0) {
      Set(input_tokens, i, 0);
      Set(input_positions, i, 0);
      Set(slot_mapping, i, -1);
      continue;
    }
    const std::int64_t entry = i * block_tables.stride(0) + pos / block_size;
    const std::int64_t block = ReadIndex(block_tables, entry);
    Set(input_tokens, i, ReadIndex(sampled_token_ids, i));
    Set(input_positions, i, pos);
    Set(seq_lens, i, pos + 1);
    Set(slot_mapping, i, block < 0 ? -1 : block * block_size + pos % block_size);
  }
}

}  // namespace

extern constinit const Reference advance_step_reference{.op = "advance_step", .run = Bind<&Run>()};

}  // namespace anyop::ops
