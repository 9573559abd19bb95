// SPDX-License-Identifier: Apache-2.0
// What my_operator should compute, in double: read by tests and checks only.
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Compute(const Context&, const Tensor& x, const Tensor& gate, const Tensor* bias, double scale,
             const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t i = 0; i < x.row_size(); ++i) {
      y.base<double>()[y.row_offset(r) + i] =
          scale * Read(x, x.row_offset(r) + i) * Read(gate, gate.row_offset(r) + i) +
          (bias ? Read(*bias, i) : 0);
    }
  }
}

// @gradient {
void Backward(const Context&, const Tensor& dy, const Tensor& x, const Tensor& gate, const Tensor*,
              double scale, const Tensor* dx, const Tensor* dgate, const Tensor* dbias) {
  for (std::int64_t i = 0; dbias && i < x.row_size(); ++i) dbias->base<double>()[i] = 0;
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t i = 0; i < x.row_size(); ++i) {
      const double g = Read(dy, dy.row_offset(r) + i);
      const double a = Read(x, x.row_offset(r) + i), b = Read(gate, gate.row_offset(r) + i);
      if (dx) dx->base<double>()[dx->row_offset(r) + i] = scale * g * b;
      if (dgate) dgate->base<double>()[dgate->row_offset(r) + i] = scale * g * a;
      if (dbias) dbias->base<double>()[i] += g;
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
