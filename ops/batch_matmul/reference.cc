// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

// z[i, j] = sum over l of x[i, l] y[l, j], each factor read transposed if its flag says so.
void Multiply(const Tensor& x, bool x_transposed, const Tensor& y, bool y_transposed,
              const Tensor& z) {
  const std::int64_t k = x.dim(x_transposed ? 1 : 2);
  const auto offset = [](const Tensor& t, std::int64_t b, std::int64_t i, std::int64_t j) {
    return b * t.stride(0) + i * t.stride(1) + j * t.stride(2);
  };
  for (std::int64_t b = 0; b < z.dim(0); ++b) {
    for (std::int64_t i = 0; i < z.dim(1); ++i) {
      for (std::int64_t j = 0; j < z.dim(2); ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          sum += Read(x, x_transposed ? offset(x, b, l, i) : offset(x, b, i, l)) *
                 Read(y, y_transposed ? offset(y, b, j, l) : offset(y, b, l, j));
        }
        *z.at<double>(b, i, j) = sum;
      }
    }
  }
}

void BatchMatmul(const Context&, const Tensor& x, const Tensor& y, std::string_view form,
                 const Tensor& z) {
  Multiply(x, form == "tn", y, form == "nt", z);
}

void BatchMatmulBackward(const Context&, const Tensor& dz, const Tensor& x, const Tensor& y,
                         std::string_view form, const Tensor* dx, const Tensor* dy) {
  if (form == "nn") {
    if (dx) Multiply(dz, false, y, true, *dx);
    if (dy) Multiply(x, true, dz, false, *dy);
  } else if (form == "nt") {
    if (dx) Multiply(dz, false, y, false, *dx);
    if (dy) Multiply(dz, true, x, false, *dy);
  } else {
    if (dx) Multiply(y, false, dz, true, *dx);
    if (dy) Multiply(x, false, dz, false, *dy);
  }
}

}  // namespace

extern constinit const Reference batch_matmul_reference{.op = "batch_matmul",
                                                        .run = Bind<&BatchMatmul>()};
extern constinit const Reference batch_matmul_backward_reference{
    .op = "batch_matmul_backward", .run = Bind<&BatchMatmulBackward>()};

}  // namespace anyop::ops
