// SPDX-License-Identifier: Apache-2.0
// The rotation of one token in double, from the formula.
#pragma once
#include <string_view>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

// x [t, h, d] of any float dtype, y [t, h, d] f64; both may be the same tensor.
inline void RotateReference(const Tensor* positions, const Tensor& table, std::int64_t offset,
                            std::string_view style, bool inverse, const Tensor& x,
                            const Tensor& y) {
  const std::int64_t q = table.dim(1) / 2;
  for (std::int64_t i = 0; i < x.dim(0); ++i) {
    const std::int64_t row = positions ? ReadIndex(*positions, i) : i;
    for (std::int64_t h = 0; h < x.dim(1); ++h) {
      const std::int64_t from = i * x.stride(0) + h * x.stride(1);
      double* to = y.at<double>(i, h);
      for (std::int64_t e = 0; e < x.dim(2); ++e) to[e] = Read(x, from + e);
      for (std::int64_t j = 0; j < q && row >= 0; ++j) {
        double& a = to[offset + (style == "neox" ? j : 2 * j)];
        double& b = to[offset + (style == "neox" ? q + j : 2 * j + 1)];
        const double c = Read(table, row * table.stride(0) + j);
        const double s = Read(table, row * table.stride(0) + q + j) * (inverse ? -1 : 1);
        const double old_a = a, old_b = b;
        a = old_a * c - old_b * s;
        b = old_b * c + old_a * s;
      }
    }
  }
}

}  // namespace
}  // namespace anyop::ops
