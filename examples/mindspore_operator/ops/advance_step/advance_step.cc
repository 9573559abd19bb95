// SPDX-License-Identifier: Apache-2.0
// advance_step: what a decoder's inputs are for the next token, in place.
//
//   tokens[s] = sampled[s]    positions[s] += 1    seq_lens[s] += 1
//   slots[s]  = block_table[s, positions[s] / block_size] * block_size + positions[s] % block_size
//
// Numerics  integers.
// Source    vLLM's advance_step, for one step.

#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& tokens, const Tensor& sampled, const Tensor& positions,
         const Tensor& seq_lens, const Tensor& slots, const Tensor& block_table,
         std::int64_t block_size) {
  for (std::int64_t s = 0; s < tokens.dim(0); ++s) {
    *tokens.at<std::int64_t>(s) = *sampled.at<std::int64_t>(s);
    const std::int64_t at = ++*positions.at<std::int64_t>(s);
    ++*seq_lens.at<std::int32_t>(s);
    const std::int64_t block = at / block_size;
    const bool is_there = at >= 0 && block < block_table.dim(1);
    *slots.at<std::int32_t>(s) =
        is_there
            ? std::int32_t(*block_table.at<std::int32_t>(s, block) * block_size + at % block_size)
            : -1;
  }
}

}  // namespace

ANYOP_KERNEL(advance_step){.run = Bind<&Run>()};

extern constinit const Op advance_step{
    .signature =
        "advance_step(tokens: mut i64[b], sampled: i64[b], positions: mut i64[b], "
        "seq_lens: mut i32[b], slots: mut i32[b], block_table: i32[b, mb], block_size: int) -> () "
        "where block_size >= 1",
};

}  // namespace anyop::ops
