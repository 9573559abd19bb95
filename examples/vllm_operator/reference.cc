// SPDX-License-Identifier: Apache-2.0
// What my_silu should compute, in double: read by tests alone.
#include <cmath>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor& y) {
  for (std::int64_t r = 0; r < y.rows(); ++r) {
    for (std::int64_t j = 0; j < y.row_size(); ++j) {
      const double g = Read(x, x.row_offset(r) + j);
      const double u = Read(x, x.row_offset(r) + y.row_size() + j);
      y.row<double>(r)[std::size_t(j)] = g / (1 + std::exp(-g)) * u;
    }
  }
}

}  // namespace

extern constinit const Reference my_silu_reference{.op = "my_silu", .run = Bind<&Run>()};

}  // namespace anyop::ops
