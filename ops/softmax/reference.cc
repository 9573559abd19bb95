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

void RunBackward(const Context&, const Tensor& dy, const Tensor& y, double scale,
                 const Tensor* dx) {
  for (std::int64_t r = 0; dx && r < y.rows(); ++r) {
    const auto g = [&](std::int64_t j) { return Read(dy, dy.row_offset(r) + j); };
    const auto p = [&](std::int64_t j) { return Read(y, y.row_offset(r) + j); };
    double sum = 0;
    for (std::int64_t j = 0; j < y.row_size(); ++j) sum += g(j) * p(j);
    for (std::int64_t j = 0; j < y.row_size(); ++j) {
      dx->base<double>()[dx->row_offset(r) + j] = scale * p(j) * (g(j) - sum);
    }
  }
}

}  // namespace

extern constinit const Reference softmax_reference{.op = "softmax", .run = Bind<&Run>()};
extern constinit const Reference softmax_backward_reference{.op = "softmax_backward",
                                                            .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
