// SPDX-License-Identifier: Apache-2.0
#include "ops/common/gelu_reference.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, std::string_view kind, const Tensor& y) {
  const std::int64_t d = x.row_size();
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < d; ++j) {
      y.base<double>()[y.row_offset(r) + j] = GeluValue(Read(x, x.row_offset(r) + j), kind);
    }
  }
}

void RunBackward(const Context&, const Tensor& dy, const Tensor& x, std::string_view kind,
                 const Tensor* dx) {
  const std::int64_t d = x.row_size();
  for (std::int64_t r = 0; dx && r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < d; ++j) {
      dx->base<double>()[dx->row_offset(r) + j] =
          Read(dy, dy.row_offset(r) + j) * GeluDerivative(Read(x, x.row_offset(r) + j), kind);
    }
  }
}

}  // namespace

extern constinit const Reference gelu_reference{.op = "gelu", .run = Bind<&Run>()};
extern constinit const Reference gelu_backward_reference{.op = "gelu_backward",
                                                         .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
