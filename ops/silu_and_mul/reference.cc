// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor& y) {
  const std::int64_t d = y.row_size();
  for (std::int64_t r = 0; r < y.rows(); ++r) {
    for (std::int64_t j = 0; j < d; ++j) {
      const double g = Read(x, x.row_offset(r) + j), u = Read(x, x.row_offset(r) + d + j);
      y.base<double>()[y.row_offset(r) + j] = g * (1 / (1 + std::exp(-g))) * u;
    }
  }
}

}  // namespace

extern constinit const Reference silu_and_mul_reference{.op = "silu_and_mul", .run = Bind<&Run>()};

}  // namespace anyop::ops
