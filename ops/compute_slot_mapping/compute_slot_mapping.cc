// SPDX-License-Identifier: Apache-2.0
// compute_slot_mapping: the cache slot of every token of a batch.
//
//   slot_mapping[i] = block_table[s, pos / block_size] * block_size + pos % block_size
//
//   for token i of sequence s (query_start_loc[s] <= i < query_start_loc[s+1]), pos = positions[i]
//
//   query_start_loc  where each sequence's tokens begin; tokens beyond its last entry get -1
//   positions        a token's place in its sequence; -1 gives -1
//   block_table      the blocks of each sequence in order; an entry -1 gives -1
//
// Numerics  Integers of 64 bits; a slot that does not fit them is refused.
// Source    vLLM 0.27.1, compute_slot_mapping_kernel_impl.
#include <algorithm>

#include "ops/common/blocks/slot.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;
constexpr Index kLargest = std::numeric_limits<Index>::max();

void Check(const Context&, const Tensor& query_start_loc, const Tensor& positions,
           const Tensor& block_table, Index block_size) {
  for (Index s = 0; s < block_table.dim(0); ++s) {
    SlotTable slots(block_table, s, block_size);
    const Index end = ReadIndex(query_start_loc, s + 1);
    for (Index i = ReadIndex(query_start_loc, s); i < end; ++i) {
      const Index pos = ReadIndex(positions, i);
      if (pos < 0) continue;
      if (!slots.Seek(pos)) {
        RefusePosition("positions", i, pos, block_table.dim(1), block_size, "block_table");
      }
      if (!slots.Fits(pos, kLargest)) RefuseSlot(i, s, "block_table", DType::kI64);
    }
  }
}

template <class P>
void Fill(const Tensor& query_start_loc, const P* positions, const Tensor& block_table,
          Index block_size, Index* slots, Index n) {
  for (Index s = 0; s < block_table.dim(0); ++s) {
    SlotTable table(block_table, s, block_size);
    const Index end = ReadIndex(query_start_loc, s + 1);
    for (Index i = ReadIndex(query_start_loc, s); i < end; ++i) {
      const bool is_held = positions[i] >= 0 && table.Seek(positions[i]);
      slots[i] = is_held ? table.Slot(positions[i]) : -1;
    }
  }
  const Index used = ReadIndex(query_start_loc, block_table.dim(0));
  std::fill(slots + used, slots + n, Index{-1});
}

void Run(const Context&, const Tensor& query_start_loc, const Tensor& positions,
         const Tensor& block_table, Index block_size, const Tensor& slot_mapping) {
  VisitIndex(positions.type(), [&](auto zero) {
    using P = decltype(zero);
    Fill(query_start_loc, positions.base<const P>(), block_table, block_size,
         slot_mapping.base<Index>(), positions.dim(0));
  });
}

}  // namespace

ANYOP_KERNEL(compute_slot_mapping){.run = Bind<&Run>()};

extern constinit const Op compute_slot_mapping{
    .signature =
        "compute_slot_mapping(query_start_loc: I[b+1] offsets t, positions: P[t], "
        "block_table: B[b, mb], block_size: int) -> (slot_mapping: i64[t]) "
        "where I in i32 | i64, P in i32 | i64, B in i32 | i64, block_size >= 1",
    .bytes = "16 * t",
    .check = Bind<&Check>(),
};

}  // namespace anyop::ops
