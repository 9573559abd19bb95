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

}  // namespace

extern constinit const Reference sigmoid_reference{.op = "sigmoid", .run = Bind<&Run>()};

}  // namespace anyop::ops
