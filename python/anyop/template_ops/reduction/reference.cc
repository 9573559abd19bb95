// SPDX-License-Identifier: Apache-2.0
// What my_operator should compute, in double: read by tests and checks only.
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Compute(const Context&, const Tensor& x, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    double sum = 0;
    for (std::int64_t i = 0; i < x.row_size(); ++i) {
      const double v = Read(x, x.row_offset(r) + i);
      sum += v * v;
    }
    y.base<double>()[y.row_offset(r)] = sum / double(x.row_size());
  }
}

// @gradient {
void Backward(const Context&, const Tensor& dy, const Tensor& x, const Tensor* dx) {
  for (std::int64_t r = 0; dx && r < x.rows(); ++r) {
    const double g = Read(dy, dy.row_offset(r)) * 2 / double(x.row_size());
    for (std::int64_t i = 0; i < x.row_size(); ++i) {
      dx->base<double>()[dx->row_offset(r) + i] = g * Read(x, x.row_offset(r) + i);
    }
  }
}

// @gradient }
}  // namespace

extern constinit const Reference my_operator_reference{.op = "my_operator",
                                                       .run = Bind<&Compute>()};
// @gradient {
extern constinit const Reference my_operator_backward_reference{.op = "my_operator_backward",
                                                                .run = Bind<&Backward>()};
// @gradient }

}  // namespace anyop::ops
