// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

struct RowMoments {
  double mean, scale;
};

RowMoments MomentsOf(const Tensor& x, std::int64_t r, double eps) {
  const std::int64_t d = x.row_size();
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < d; ++i) sum += Read(x, x.row_offset(r) + i);
  const double mean = sum / double(d);
  for (std::int64_t i = 0; i < d; ++i) {
    const double v = Read(x, x.row_offset(r) + i) - mean;
    squares += v * v;
  }
  return {mean, 1 / std::sqrt(squares / double(d) + eps)};
}

void Run(const Context&, const Tensor& x, const Tensor* weight, const Tensor* bias, double eps,
         const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const auto [mean, scale] = MomentsOf(x, r, eps);
    for (std::int64_t i = 0; i < x.row_size(); ++i) {
      y.base<double>()[y.row_offset(r) + i] =
          (Read(x, x.row_offset(r) + i) - mean) * scale * (weight ? Read(*weight, i) : 1) +
          (bias ? Read(*bias, i) : 0);
    }
  }
}

void RunBackward(const Context&, const Tensor& dy, const Tensor& x, const Tensor* weight,
                 double eps, const Tensor* dx, const Tensor* dweight, const Tensor* dbias) {
  const std::int64_t d = x.row_size();
  for (std::int64_t j = 0; j < d; ++j) {
    if (dweight) dweight->base<double>()[j] = 0;
    if (dbias) dbias->base<double>()[j] = 0;
  }
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const auto [mean, scale] = MomentsOf(x, r, eps);
    const auto z = [&, m = mean, s = scale](std::int64_t j) {
      return (Read(x, x.row_offset(r) + j) - m) * s;
    };
    const auto w = [&](std::int64_t j) { return Read(dy, dy.row_offset(r) + j); };
    const auto g = [&](std::int64_t j) { return w(j) * (weight ? Read(*weight, j) : 1); };
    double sum = 0, product = 0;
    for (std::int64_t j = 0; j < d; ++j) {
      sum += g(j);
      product += g(j) * z(j);
    }
    for (std::int64_t j = 0; j < d; ++j) {
      if (dweight) dweight->base<double>()[j] += w(j) * z(j);
      if (dbias) dbias->base<double>()[j] += w(j);
      if (dx) {
        dx->base<double>()[dx->row_offset(r) + j] =
            scale * (g(j) - sum / double(d) - z(j) * product / double(d));
      }
    }
  }
}

}  // namespace

extern constinit const Reference layer_norm_reference{.op = "layer_norm", .run = Bind<&Run>()};
extern constinit const Reference layer_norm_backward_reference{.op = "layer_norm_backward",
                                                               .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
