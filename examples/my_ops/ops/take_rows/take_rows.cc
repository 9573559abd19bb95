// SPDX-License-Identifier: Apache-2.0
// Rows of a table: y[i] = table[ids[i]], and zeros where ids[i] is negative.
//
// ids: of i32 or i64, as frameworks differ in what their integers are.
// Numerics: copies.
// Source: torch.nn.functional.embedding.
#include <algorithm>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

template <class T>
void RunAs(const Context& ctx, const Tensor& table, const Tensor& ids, const Tensor& y) {
  const std::int64_t n = ids.dim(0), d = table.dim(1);
  ctx.ParallelFor(n, 8000 / (d + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t id = ReadIndex(ids, i);  // less than v, as `below v` says
      T* to = y.at<T>(i);                         // [d]
      if (id < 0) {
        std::fill_n(to, d, T(0));
      } else {
        std::copy_n(table.at<const T>(id), d, to);
      }
    }
  });
}

void Run(const Context& ctx, const Tensor& table, const Tensor& ids, const Tensor& y) {
  table.type() == DType::kF32 ? RunAs<float>(ctx, table, ids, y) : RunAs<BF16>(ctx, table, ids, y);
}

}  // namespace

ANYOP_KERNEL(take_rows){.run = Bind<&Run>()};

extern constinit const Op take_rows{
    .signature =
        "take_rows(table: T[v, d], ids: i32|i64[n] below v) -> (y: T[n, d]) where T in f32 | bf16",
};

}  // namespace anyop::ops
