// SPDX-License-Identifier: Apache-2.0
// embedding: gathers rows of a table.
//
//   y[i] = weight[ids[i]]
//
//   ids          row numbers. A negative one is no error: it gives a row of zeros, as the parts of
//                a vocabulary on several machines need. Python indexing counts it from the end,
//                torch refuses it
//   weight       the table, one row per id
//   padding_idx  the row that gets no gradient, -1 for none; the forward pass does not look at it
//
// Numerics  Rows are copied bit for bit.
// Source    Definition.
#include <cstring>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

// Rows are gathered from all over a large table: the line fetched ahead hides the miss.
constexpr std::int64_t kPrefetchRows = 4;

void Run(const Context& ctx, const Tensor& ids, const Tensor& weight, std::int64_t padding_idx,
         const Tensor& y) {
  (void)padding_idx;
  const std::int64_t element = Bytes(weight.type()), row_bytes = weight.dim(1) * element;
  const std::int64_t pitch = weight.stride(0) * element, per_row = ids.row_size();
  const char* table = weight.base<const char>();
  const auto copy = [&](std::int64_t row, std::int64_t begin, std::int64_t end) {
    const std::int64_t offset = ids.row_offset(row);
    for (std::int64_t j = begin; j < end; ++j) {
      if (j + kPrefetchRows < end) {
        const std::int64_t next = ReadIndex(ids, offset + j + kPrefetchRows);
        if (next >= 0) __builtin_prefetch(table + next * pitch);
      }
      const std::int64_t id = ReadIndex(ids, offset + j);
      char* to = y.base<char>() + y.row_offset(row * per_row + j) * element;
      if (id < 0) {
        std::memset(to, 0, std::size_t(row_bytes));
      } else {
        std::memcpy(to, table + id * pitch, std::size_t(row_bytes));
      }
    }
  };
  const double row_ns = double(row_bytes) * 0.1 + 20;
  ctx.ParallelFor(ids.size(), std::int64_t(2000 / row_ns) + 1,
                  [&](std::int64_t begin, std::int64_t end) {
                    while (begin < end) {
                      const std::int64_t row = begin / per_row, first = begin % per_row;
                      const std::int64_t n = std::min(per_row - first, end - begin);
                      copy(row, first, first + n);
                      begin += n;
                    }
                  });
}

}  // namespace

ANYOP_KERNEL(embedding){.run = Bind<&Run>()};

extern constinit const Op embedding{
    .signature =
        "embedding(ids: I[...] below v, weight: T[v, d], padding_idx: int = -1) -> "
        "(y: T[..., d]) where T in f32 | f16 | bf16, I in i32 | i64",
    .gradient = "embedding_backward",
    .bytes = "2 * size(y) * bytes(T) + bytes(ids)",
};

}  // namespace anyop::ops
