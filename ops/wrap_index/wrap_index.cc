// SPDX-License-Identifier: Apache-2.0
// wrap_index: numbers of rows, counted from the first row on, as Python and torch index.
//
//   y[i] = index[i] + n   where index[i] < 0 and wraps
//   y[i] = index[i]       elsewhere
//
//   n      how many rows there are
//   wraps  whether a negative number counts from the end; it is refused otherwise
//
// Every number must name a row. Operators that take y then never see a negative number, which means
// "none" to them.
//
// Numerics  Integers.
// Source    NumPy, "Indexing on ndarrays"; torch.Tensor.index_put_ (wraps) and torch.embedding,
//           torch.Tensor.index_copy_ (refuse).
#include <algorithm>
#include <string>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;

// f(row of index, number of the row), with elements of index's own type.
template <class F>
void ForRows(const Tensor& index, F&& f) {
  if (index.size() == 0) return;  // of as many rows as there may be
  VisitIndex(index.type(), [&](auto zero) {
    for (Index r = 0; r < index.rows(); ++r) f(index.row<const decltype(zero)>(r), r);
  });
}

void Check(const Context&, const Tensor& index, Index n, bool wraps) {
  const Index first = wraps ? -n : 0;
  ForRows(index, [&](const auto& row, Index r) {
    const auto is_row = [&](Index at) { return at >= first && at < n; };
    bool is_right = true;
    for (const Index at : row) is_right &= is_row(at);
    if (is_right) return;
    const auto wrong = std::find_if_not(row.begin(), row.end(), is_row);
    const Index at = *wrong, place = r * index.row_size() + (wrong - row.begin());
    Refuse("index[" + std::to_string(place) + "] is " + std::to_string(at) + ", but must be " +
           (n ? std::to_string(first) + " to " + std::to_string(n - 1) : "absent") +
           ", because there are " + std::to_string(n) + " rows" +
           (at < 0 && !wraps ? " and none is counted from the end." : "."));
  });
}

void Run(const Context&, const Tensor& index, Index n, bool, const Tensor& y) {
  ForRows(index, [&](const auto& row, Index r) {
    const auto to = y.row<Index>(r);
    for (std::size_t i = 0; i < row.size(); ++i) to[i] = row[i] < 0 ? row[i] + n : Index(row[i]);
  });
}

}  // namespace

ANYOP_KERNEL(wrap_index){.run = Bind<&Run>()};

extern constinit const Op wrap_index{
    .signature =
        "wrap_index(index: I[...], n: int, wraps: bool = True) -> (y: i64[...]) "
        "where I in i32 | i64, n >= 0",
    .check = Bind<&Check>(),
};

}  // namespace anyop::ops
