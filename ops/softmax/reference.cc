// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, double scale, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const auto scaled = [&](std::int64_t j) { return scale * Read(x, x.row_offset(r) + j); };
    double m = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t j = 0; j < x.row_size(); ++j) m = std::max(m, scaled(j));
    for (std::int64_t j = 0; j < x.row_size(); ++j) sum += std::exp(scaled(j) - m);
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      y.base<double>()[y.row_offset(r) + j] = std::exp(scaled(j) - m) / sum;
    }
  }
}

}  // namespace

extern constinit const Reference softmax_reference{.op = "softmax", .run = Bind<&Run>()};

}  // namespace anyop::ops
