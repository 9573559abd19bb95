// SPDX-License-Identifier: Apache-2.0
// What my_operator should compute, in double: read by tests and checks only.
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Compute(const Context&, const Tensor& x, const Tensor& weight, const Tensor* bias,
             const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < weight.dim(0); ++j) {
      double sum = bias ? Read(*bias, j) : 0;
      for (std::int64_t i = 0; i < weight.dim(1); ++i) {
        sum += Read(x, x.row_offset(r) + i) * Read(weight, weight.row_offset(j) + i);
      }
      y.base<double>()[y.row_offset(r) + j] = sum;
    }
  }
}

// @gradient {
void Backward(const Context&, const Tensor& dy, const Tensor& x, const Tensor& weight,
              const Tensor*, const Tensor* dx, const Tensor* dweight, const Tensor* dbias) {
  const std::int64_t n = weight.dim(0), k = weight.dim(1);
  const auto g = [&](std::int64_t r, std::int64_t j) { return Read(dy, dy.row_offset(r) + j); };
  for (std::int64_t r = 0; dx && r < x.rows(); ++r) {
    for (std::int64_t i = 0; i < k; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < n; ++j) sum += g(r, j) * Read(weight, weight.row_offset(j) + i);
      dx->base<double>()[dx->row_offset(r) + i] = sum;
    }
  }
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; dweight && i < k; ++i) {
      double sum = 0;
      for (std::int64_t r = 0; r < x.rows(); ++r) sum += g(r, j) * Read(x, x.row_offset(r) + i);
      dweight->base<double>()[dweight->row_offset(j) + i] = sum;
    }
    double sum = 0;
    for (std::int64_t r = 0; r < x.rows(); ++r) sum += g(r, j);
    if (dbias) dbias->base<double>()[j] = sum;
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
