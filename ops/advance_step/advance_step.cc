// SPDX-License-Identifier: Apache-2.0
// advance_step: moves the state of a running batch one token on, in place.
//
//   input_tokens[i]    = sampled_token_ids[i]
//   input_positions[i] = pos                     pos = seq_lens[i] before the call
//   seq_lens[i]        = pos + 1
//   slot_mapping[i]    = block_tables[i, pos / block_size] * block_size + pos % block_size
//
//   num_queries  rows in use (absent: all). Rows from there on, and rows of negative length, are
//                padding: token 0, position 0, slot -1, length unchanged
//   block_tables the blocks of each sequence; an entry -1 gives slot -1
//
// Numerics  Integers; slots are computed in 64 bits and a slot that does not fit is refused.
// Source    vLLM pull request 6338.
#include <algorithm>

#include "ops/common/blocks/slot.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;

Index Limit(const TensorShape& t) {
  return t.type() == DType::kI64 ? std::numeric_limits<Index>::max()
                                 : std::numeric_limits<std::int32_t>::max();
}

void Write(const Tensor& t, Index i, Index value) {
  if (t.type() == DType::kI64) {
    t.base<Index>()[i] = value;
  } else {
    t.base<std::int32_t>()[i] = std::int32_t(value);
  }
}

void Check(const Context&, const TensorShape& input_tokens, const TensorShape&,
           const TensorShape& input_positions, const Tensor& seq_lens,
           const TensorShape& slot_mapping, const Tensor& block_tables, Index block_size,
           std::optional<Index> num_queries) {
  const Index blocks = block_tables.dim(1);
  const Index longest = std::min(Limit(input_positions), Limit(seq_lens) - 1);
  for (Index i = 0; i < num_queries.value_or(input_tokens.dim(0)); ++i) {
    const Index pos = ReadIndex(seq_lens, i);
    if (pos < 0) continue;
    SlotTable slots(block_tables, i, block_size);
    if (!slots.Seek(pos)) {
      RefusePosition("seq_lens", i, pos, blocks, block_size, "block_tables");
    }
    if (pos > longest) {
      Refuse("seq_lens[" + std::to_string(i) + "] is " + std::to_string(pos) +
             ", but must be at most " + std::to_string(longest) +
             ", because input_positions and seq_lens hold no more.");
    }
    if (!slots.Fits(pos, Limit(slot_mapping)))
      RefuseSlot(i, i, "block_tables", slot_mapping.type());
  }
}

void Run(const Context&, const Tensor& input_tokens, const Tensor& sampled_token_ids,
         const Tensor& input_positions, const Tensor& seq_lens, const Tensor& slot_mapping,
         const Tensor& block_tables, Index block_size, std::optional<Index> num_queries) {
  const Index queries = num_queries.value_or(input_tokens.dim(0));
  for (Index i = 0; i < input_tokens.dim(0); ++i) {
    const Index pos = i < queries ? ReadIndex(seq_lens, i) : -1;
    if (pos < 0) {
      Write(input_tokens, i, 0);
      Write(input_positions, i, 0);
      Write(slot_mapping, i, -1);
      continue;
    }
    Write(input_tokens, i, ReadIndex(sampled_token_ids, i));
    Write(input_positions, i, pos);
    Write(seq_lens, i, pos + 1);
    SlotTable slots(block_tables, i, block_size);
    slots.Seek(pos);
    Write(slot_mapping, i, slots.Slot(pos));
  }
}

}  // namespace

ANYOP_KERNEL(advance_step){.run = Bind<&Run>()};

extern constinit const Op advance_step{
    .signature =
        "advance_step(input_tokens: mut I[n], sampled_token_ids: I[m], "
        "input_positions: mut I[n], seq_lens: mut S[n], slot_mapping: mut M[n], "
        "block_tables: B[n, mb], block_size: int, num_queries: int?) -> () "
        "where I in i32 | i64, S in i32 | i64, M in i32 | i64, B in i32 | i64, block_size >= 1, "
        "num_queries >= 0, num_queries <= n, num_queries <= m, given(num_queries) or m >= n",
    .bytes = "50 * n",
    .check = Bind<&Check>(),
};

}  // namespace anyop::ops
