// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

constexpr double kA = 0.79788456080286535588;  // sqrt(2 / pi)

// 1 + erf(x / sqrt(2)), and 1 + tanh(z), without cancellation.
double OnePlusErf(double x) { return std::erfc(-x / std::sqrt(2.0)); }
double OnePlusTanh(double z) { return 2 / (1 + std::exp(-2 * z)); }

double Value(double x, std::string_view kind) {
  if (std::isinf(x)) return x < 0 ? -0.0 : x;
  if (kind == "quick") return x / (1 + std::exp(-1.702 * x));
  if (kind == "tanh") return x / 2 * OnePlusTanh(kA * (x + 0.044715 * x * x * x));
  return x / 2 * OnePlusErf(x);
}

double Derivative(double x, std::string_view kind) {
  if (std::isinf(x)) return x < 0 ? 0 : 1;
  if (kind == "none") {
    return OnePlusErf(x) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
  }
  if (kind == "quick") {
    const double q = 1 / (1 + std::exp(-1.702 * x)), rest = 1 / (1 + std::exp(1.702 * x));
    return q * (1 + 1.702 * x * rest);
  }
  const double z = kA * (x + 0.044715 * x * x * x);
  const double more = OnePlusTanh(z), less = OnePlusTanh(-z);
  return more / 2 + x / 2 * more * less * kA * (1 + 3 * 0.044715 * x * x);
}

void Run(const Context&, const Tensor& x, std::string_view kind, const Tensor& y) {
  const std::int64_t d = x.row_size();
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < d; ++j) {
      y.base<double>()[y.row_offset(r) + j] = Value(Read(x, x.row_offset(r) + j), kind);
    }
  }
}

void RunBackward(const Context&, const Tensor& dy, const Tensor& x, std::string_view kind,
                 const Tensor* dx) {
  const std::int64_t d = x.row_size();
  for (std::int64_t r = 0; dx && r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < d; ++j) {
      dx->base<double>()[dx->row_offset(r) + j] =
          Read(dy, dy.row_offset(r) + j) * Derivative(Read(x, x.row_offset(r) + j), kind);
    }
  }
}

}  // namespace

extern constinit const Reference gelu_reference{.op = "gelu", .run = Bind<&Run>()};
extern constinit const Reference gelu_backward_reference{.op = "gelu_backward",
                                                         .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
