// SPDX-License-Identifier: Apache-2.0
#include "ops/common/elementwise/reference_gelu.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, std::string_view approximate, const Tensor& y) {
  const std::int64_t d = y.row_size();
  for (std::int64_t r = 0; r < y.rows(); ++r) {
    for (std::int64_t j = 0; j < d; ++j) {
      const double g = Read(x, x.row_offset(r) + j), u = Read(x, x.row_offset(r) + d + j);
      y.base<double>()[y.row_offset(r) + j] = GeluValue(g, approximate) * u;
    }
  }
}

void RunBackward(const Context&, const Tensor& dy, const Tensor& x, std::string_view approximate,
                 const Tensor* dx) {
  const std::int64_t d = dy.row_size();
  for (std::int64_t r = 0; dx && r < dy.rows(); ++r) {
    for (std::int64_t j = 0; j < d; ++j) {
      const double g = Read(x, x.row_offset(r) + j), u = Read(x, x.row_offset(r) + d + j);
      const double w = Read(dy, dy.row_offset(r) + j);
      double* to = dx->base<double>() + dx->row_offset(r) + j;
      to[0] = w * u * GeluDerivative(g, approximate);
      to[d] = w * GeluValue(g, approximate);
    }
  }
}

}  // namespace

extern constinit const Reference gelu_and_mul_reference{.op = "gelu_and_mul", .run = Bind<&Run>()};
extern constinit const Reference gelu_and_mul_backward_reference{.op = "gelu_and_mul_backward",
                                                                 .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
