// SPDX-License-Identifier: Apache-2.0
// paged_cache_load: the rows of several sequences out of a paged cache, one after the other.
//
//   y[o_i + l] = row starts[i] + l of sequence i     l < seq_lens[i], o_i = sum of earlier seq_lens
//
//   ND  that row is cache[b, p % bs]           b = block_table[i, p / bs], p the row's number
//   NZ  its element x is cache[b, x / c0, p % bs, x % c0]
//
//   block_table  the blocks of each sequence in order; rows of a block -1 are zeros
//   seq_lens     how many rows of each sequence; a negative one counts as 0
//   starts       the first row of each; absent: 0
//   capacity     rows of y; those beyond `count` are 0
//
// Numerics  Rows are copied bit for bit.
// Source    vLLM 0.27.1, cp_gather_cache; ms_custom_ops 0.2.0, paged_cache_load.
#include <algorithm>
#include <cstring>
#include <string>

#include "anyop/op.h"
#include "ops/common/stream.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;
using Layout = std::string_view;

Index StartOf(const Tensor* starts, Index i) { return starts ? ReadIndex(*starts, i) : 0; }

void CheckBlocks(const Tensor& table, Index i, Index begin, Index end, Index blocks) {
  for (Index column = begin; column < end; ++column) {
    const Index block = ReadIndex(table, i * table.stride(0) + column);
    if (block < blocks) continue;
    Refuse("block_table[" + std::to_string(i) + ", " + std::to_string(column) + "] is " +
           std::to_string(block) + ", but must be less than " + std::to_string(blocks) +
           " (the blocks of cache). Try -1 for a block that does not exist.");
  }
}

void Check(const Context&, const TensorShape& cache, const Tensor& table, const Tensor& seq_lens,
           const Tensor* starts, Index capacity, Layout layout) {
  const Index bs = cache.dim(layout == "ND" ? 1 : 2), columns = table.dim(1);
  Index count = 0;
  for (Index i = 0; i < seq_lens.dim(0); ++i) {
    const Index rows = ReadIndex(seq_lens, i), start = StartOf(starts, i);
    if (rows <= 0) continue;
    if (rows > capacity - count) {
      Refuse("seq_lens[" + std::to_string(i) + "] is " + std::to_string(rows) +
             ", but must be at most " + std::to_string(capacity - count) +
             ", because capacity is " + std::to_string(capacity) + " and earlier sequences have " +
             std::to_string(count) + " rows. Try a larger capacity.");
    }
    count += rows;
    if (start < 0) {
      Refuse("starts[" + std::to_string(i) + "] is " + std::to_string(start) +
             ", but must be at least 0.");
    }
    if (start > columns * bs - rows) {
      Refuse("seq_lens[" + std::to_string(i) + "] is " + std::to_string(rows) + " and begins at " +
             std::to_string(start) + ", but must end at " + std::to_string(columns * bs) + " (" +
             std::to_string(columns) + " columns of block_table, blocks of " + std::to_string(bs) +
             ") or before.");
    }
    CheckBlocks(table, i, start / bs, (start + rows - 1) / bs + 1, cache.dim(0));
  }
}

// How a row lies in a cache: in parts of equal size, one `part_stride` bytes after the other.
class CacheReader {
 public:
  CacheReader(const Tensor& cache, bool nz)
      : base_(cache.base<const char>()),
        element_(Bytes(cache.type())),
        parts_(nz ? cache.dim(1) : 1),
        part_bytes_(cache.dim(nz ? 3 : 2) * element_),
        block_(cache.stride(0) * element_),
        part_stride_(cache.stride(1) * element_),
        row_(cache.stride(nz ? 2 : 1) * element_) {}

  Index row_bytes() const { return parts_ * part_bytes_; }
  void Copy(Index block, Index offset, bool streams, char* to) const {
    const char* from = base_ + block * block_ + offset * row_;
    if (parts_ == 1 && streams) return StreamCopy(to, from, part_bytes_);
    for (Index part = 0; part < parts_; ++part) {
      std::memcpy(to + part * part_bytes_, from + part * part_stride_, std::size_t(part_bytes_));
    }
  }

 private:
  const char* base_;
  Index element_, parts_, part_bytes_, block_, part_stride_, row_;  // bytes, but for parts_
};

template <class N>
constexpr ArrayWorkspace<Index, N> LayoutOf(N b) {
  return ArrayWorkspace<Index, N>(b);
}
constexpr SizeText WorkspaceBytes() { return LayoutOf<SizeText>("b").bytes(); }

void Run(const Context& ctx, const Tensor& cache, const Tensor& table, const Tensor& seq_lens,
         const Tensor* starts, Index capacity, Layout layout, const Tensor& y,
         const Tensor& count) {
  const CacheReader reader(cache, layout == "NZ");
  const Index bs = cache.dim(layout == "ND" ? 1 : 2), b = seq_lens.dim(0);
  const auto layout_of_ends = LayoutOf<std::int64_t>(b);
  Index* ends = Placed(
      ctx, layout_of_ends)[layout_of_ends.elements];  // [b]: where each sequence's rows end in y
  Index total = 0;
  for (Index i = 0; i < b; ++i) ends[i] = total += std::max<Index>(0, ReadIndex(seq_lens, i));
  *count.base<Index>() = total;
  const Index pitch = y.stride(0) * Bytes(y.type()), row_bytes = reader.row_bytes();
  const bool streams = Streams(ctx, 2 * total * row_bytes);
  ctx.ParallelFor(capacity, 40000 / (2 * row_bytes + 100) + 1, [&](Index begin, Index end) {
    Index i = std::upper_bound(ends, ends + b, begin) - ends;
    for (Index r = begin; r < end; ++r) {
      while (i < b && ends[i] <= r) ++i;
      char* to = y.base<char>() + r * pitch;
      Index block = -1, position = 0;
      if (i < b) {
        position = StartOf(starts, i) + r - (i ? ends[i - 1] : 0);
        block = ReadIndex(table, i * table.stride(0) + position / bs);
      }
      if (block < 0) {
        std::memset(to, 0, std::size_t(row_bytes));
      } else {
        reader.Copy(block, position % bs, streams, to);
      }
    }
    if (streams) EndStream();
  });
}

}  // namespace

ANYOP_KERNEL(paged_cache_load){.workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&Run>()};

extern constinit const Op paged_cache_load{
    .signature =
        "paged_cache_load(cache: C[nb, bs, w], block_table: B[b, mb], seq_lens: I[b], "
        "starts: I[b]?, capacity: int, layout: 'ND' = 'ND') -> (y: C[capacity, w], count: i64[1]) "
        "where C in f32 | f16 | bf16 | i8 | f8e4m3 | u8, B in i32 | i64, I in i32 | i64, "
        "capacity >= 0, bs >= 1\n"
        "paged_cache_load(cache: C[nb, wc, bs, c0], block_table: B[b, mb], seq_lens: I[b], "
        "starts: I[b]?, capacity: int, layout: 'NZ') -> (y: C[capacity, wc*c0], count: i64[1]) "
        "where C in f32 | f16 | bf16 | i8 | f8e4m3 | u8, B in i32 | i64, I in i32 | i64, "
        "capacity >= 0, bs >= 1",
    .bytes = "2 * bytes(y)",
    .check = Bind<&Check>(),
};

}  // namespace anyop::ops
