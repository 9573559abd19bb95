// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string_view>

#include "anyop/op.h"
#include "ops/common/elementwise/reference_gelu.h"

namespace anyop::ops {
namespace {

double Activate(double z, std::string_view activation) {
  if (activation == "relu") return z < 0 ? 0 : z;
  if (activation == "relu2") return z < 0 ? 0 : z * z;
  if (activation == "silu") return z / (1 + std::exp(-z));
  if (activation == "gelu") return GeluValue(z, "none");
  if (activation == "gelu_tanh") return GeluValue(z, "tanh");
  if (activation == "sigmoid") return 1 / (1 + std::exp(-z));
  return z;
}

// weight(j, l) is the element of feature j and input l.
template <class Weight>
void Multiply(const Tensor& x, std::int64_t n, const Tensor* bias, std::string_view activation,
              const Tensor& y, Weight&& weight) {
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = bias ? Read(*bias, j) : 0;
      for (std::int64_t l = 0; l < x.row_size(); ++l) {
        sum += Read(x, x.row_offset(i) + l) * weight(j, l);
      }
      y.base<double>()[y.row_offset(i) + j] = Activate(sum, activation);
    }
  }
}

void Linear(const Context&, const Tensor& x, const Tensor& weight, const Tensor* bias,
            std::string_view activation, std::string_view, const Tensor& y) {
  Multiply(x, weight.dim(0), bias, activation, y,
           [&](std::int64_t j, std::int64_t l) { return Read(weight, weight.row_offset(j) + l); });
}

void LinearPacked(const Context&, const Tensor& x, const Tensor& packed, std::int64_t features,
                  const Tensor* bias, std::string_view activation, std::string_view,
                  const Tensor& y) {
  Multiply(x, features, bias, activation, y, [&](std::int64_t j, std::int64_t l) {
    return Read(packed, ((j / 32 * packed.dim(1) + l / 2) * 32 + j % 32) * 2 + l % 2);
  });
}

void PackWeight(const Context&, const Tensor& weight, const Tensor& packed) {
  const std::int64_t n = weight.dim(-2), panels = packed.dim(-4);
  std::int64_t at = 0;
  for (std::int64_t a = 0; panels && packed.dim(-3) && a < packed.rows() / packed.dim(-3) / 32;
       ++a) {
    for (std::int64_t z = 0; z < packed.dim(-3); ++z) {
      for (std::int64_t j = 0; j < 32; ++j) {
        for (std::int64_t w = 0; w < 2; ++w, ++at) {
          const std::int64_t row = a % panels * 32 + j;
          const bool inside = row < n && 2 * z + w < weight.dim(-1);
          packed.base<double>()[at] =
              inside ? Read(weight, weight.row_offset(a / panels * n + row) + 2 * z + w) : 0;
        }
      }
    }
  }
}

void LinearBackward(const Context&, const Tensor& dy, const Tensor& x, const Tensor& weight,
                    std::string_view, const Tensor* dx, const Tensor* dweight,
                    const Tensor* dbias) {
  const std::int64_t n = weight.dim(0), k = weight.dim(1);
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    for (std::int64_t l = 0; dx && l < k; ++l) dx->base<double>()[dx->row_offset(i) + l] = 0;
  }
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t l = 0; dweight && l < k; ++l) *dweight->at<double>(j, l) = 0;
    if (dbias) *dbias->at<double>(j) = 0;
  }
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const double d = Read(dy, dy.row_offset(i) + j);
      if (dbias) *dbias->at<double>(j) += d;
      for (std::int64_t l = 0; l < k; ++l) {
        if (dx) {
          dx->base<double>()[dx->row_offset(i) + l] += d * Read(weight, weight.row_offset(j) + l);
        }
        if (dweight) *dweight->at<double>(j, l) += d * Read(x, x.row_offset(i) + l);
      }
    }
  }
}

}  // namespace

extern constinit const Reference linear_reference{.op = "linear", .run = Bind<&Linear>()};
extern constinit const Reference linear_packed_reference{.op = "linear_packed",
                                                         .run = Bind<&LinearPacked>()};
extern constinit const Reference linear_backward_reference{.op = "linear_backward",
                                                           .run = Bind<&LinearBackward>()};
extern constinit const Reference pack_weight_reference{.op = "pack_weight",
                                                       .run = Bind<&PackWeight>()};

}  // namespace anyop::ops
