// SPDX-License-Identifier: Apache-2.0
// Adds rows to those of a table, in place: table[ids[i]] += rows[i], for i in ascending order.
//
// ids: rows of the table, of which several may be the same; a negative one adds nothing.
// Numerics: f32, rounded after each addition.
// Source: torch.Tensor.index_add_.
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context& ctx, const Tensor& table, const Tensor& ids, const Tensor& rows) {
  const std::int64_t n = ids.dim(0), d = table.dim(1);
  // Cut by columns: two parts never add to one element, whatever rows the ids name.
  ctx.ParallelFor(d, 8000 / (n + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t id = ReadIndex(ids, i);
      if (id < 0) continue;
      float* to = table.at<float>(id);              // [d]
      const float* from = rows.at<const float>(i);  // [d]
      for (std::int64_t k = begin; k < end; ++k) to[k] += from[k];
    }
  });
}

}  // namespace

ANYOP_KERNEL(add_rows){.run = Bind<&Run>()};

extern constinit const Op add_rows{
    .signature = "add_rows(table: mut f32[v, d], ids: i32|i64[n] below v, rows: f32[n, d]) -> ()",
};

}  // namespace anyop::ops
