// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      y.base<double>()[y.row_offset(r) + j] = 1 / (1 + std::exp(-Read(x, x.row_offset(r) + j)));
    }
  }
}

void RunBackward(const Context&, const Tensor& dy, const Tensor& y, const Tensor* dx) {
  for (std::int64_t r = 0; dx && r < y.rows(); ++r) {
    for (std::int64_t j = 0; j < y.row_size(); ++j) {
      const double s = Read(y, y.row_offset(r) + j);
      dx->base<double>()[dx->row_offset(r) + j] = Read(dy, dy.row_offset(r) + j) * s * (1 - s);
    }
  }
}

}  // namespace

extern constinit const Reference sigmoid_reference{.op = "sigmoid", .run = Bind<&Run>()};
extern constinit const Reference sigmoid_backward_reference{.op = "sigmoid_backward",
                                                            .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
