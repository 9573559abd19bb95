// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Mirror(const Context&, const Tensor& x, const Tensor& y) {
  const std::int64_t d = x.row_size();
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const std::int64_t at = x.row_offset(r);
    for (std::int64_t j = 0; j < d; ++j) {
      y.row<double>(r)[std::size_t(j)] = 2 * Read(x, at + j) + Read(x, at + d - 1 - j);
    }
  }
}

void Count(const Context&, const Tensor& x, const Tensor& n) {
  for (std::int64_t j = 0; j < x.row_size(); ++j) {
    n.base<std::int32_t>()[j] = 0;
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      n.base<std::int32_t>()[j] += Read(x, x.row_offset(r) + j) > 0;
    }
  }
}

void Largest(const Context&, const Tensor& x, const Tensor& y) {
  for (std::int64_t j = 0; j < x.row_size(); ++j) {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      largest = std::max(largest, Read(x, x.row_offset(r) + j));
    }
    y.base<double>()[j] = largest;
  }
}

}  // namespace

extern constinit const Reference slot_scratch_reference{.op = "slot_scratch",
                                                        .run = Bind<&Mirror>()};
extern constinit const Reference one_scratch_reference{.op = "one_scratch", .run = Bind<&Mirror>()};
extern constinit const Reference static_memory_reference{.op = "static_memory",
                                                         .run = Bind<&Mirror>()};
extern constinit const Reference few_rows_reference{.op = "few_rows", .run = Bind<&Mirror>()};
extern constinit const Reference row_before_reference{.op = "row_before", .run = Bind<&Mirror>()};
extern constinit const Reference atomic_count_reference{.op = "atomic_count",
                                                        .run = Bind<&Count>()};
extern constinit const Reference stale_scratch_reference{.op = "stale_scratch",
                                                         .run = Bind<&Mirror>()};
extern constinit const Reference stale_count_reference{.op = "stale_count", .run = Bind<&Count>()};
extern constinit const Reference sums_at_end_reference{.op = "sums_at_end", .run = Bind<&Count>()};
extern constinit const Reference plain_largest_reference{.op = "plain_largest",
                                                         .run = Bind<&Largest>()};

}  // namespace anyop::ops
