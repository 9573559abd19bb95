// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

double Positive(double x) { return std::isnan(x) ? x : x > 0 ? x : 0.0; }

void Run(const Context&, const Tensor& x, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      const double positive = Positive(Read(x, x.row_offset(r) + j));
      y.base<double>()[y.row_offset(r) + j] = positive * positive;
    }
  }
}

void RunBackward(const Context&, const Tensor& dy, const Tensor& x, const Tensor* dx) {
  for (std::int64_t r = 0; dx && r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      dx->base<double>()[dx->row_offset(r) + j] =
          Read(dy, dy.row_offset(r) + j) * 2 * Positive(Read(x, x.row_offset(r) + j));
    }
  }
}

}  // namespace

extern constinit const Reference relu2_reference{.op = "relu2", .run = Bind<&Run>()};
extern constinit const Reference relu2_backward_reference{.op = "relu2_backward",
                                                          .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
