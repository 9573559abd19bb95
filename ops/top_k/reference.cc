// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, std::int64_t k, bool sorted, const Tensor& values,
         const Tensor& indices) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const auto value = [&](std::int64_t j) { return Read(x, x.row_offset(r) + j); };
    std::vector<std::int64_t> order(std::size_t(x.row_size()));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return value(a) > value(b) || (std::isnan(value(b)) && !std::isnan(value(a)));
    });
    if (!sorted) std::sort(order.begin(), order.begin() + k);
    for (std::int64_t i = 0; i < k; ++i) {
      indices.row<std::int64_t>(r)[std::size_t(i)] = order[std::size_t(i)];
      values.row<double>(r)[std::size_t(i)] = value(order[std::size_t(i)]);
    }
  }
}

}  // namespace

extern constinit const Reference top_k_reference{.op = "top_k", .run = Bind<&Run>()};

}  // namespace anyop::ops
