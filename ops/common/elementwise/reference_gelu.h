// SPDX-License-Identifier: Apache-2.0
// The Gaussian error linear unit and its derivative in double, from the formulas.
#pragma once
#include <cmath>
#include <string_view>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

constexpr double kA = 0.79788456080286535588;  // sqrt(2 / pi)

// 1 + erf(x / sqrt(2)), and 1 + tanh(z), without cancellation.
inline double OnePlusErf(double x) { return std::erfc(-x / std::sqrt(2.0)); }
inline double OnePlusTanh(double z) { return 2 / (1 + std::exp(-2 * z)); }

// kind: 'none', 'tanh' or 'quick'.
inline double GeluValue(double x, std::string_view kind) {
  if (std::isinf(x)) return x < 0 ? -0.0 : x;
  if (kind == "quick") return x / (1 + std::exp(-1.702 * x));
  if (kind == "tanh") return x / 2 * OnePlusTanh(kA * (x + 0.044715 * x * x * x));
  return x / 2 * OnePlusErf(x);
}

inline double GeluDerivative(double x, std::string_view kind) {
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

}  // namespace
}  // namespace anyop::ops
