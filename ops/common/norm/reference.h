// SPDX-License-Identifier: Apache-2.0
// The gradient of root-mean-square normalization in double, from the formula.
#pragma once
#include <cmath>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

// dy and dsum count as zeros, weight as ones, where they are null; a null result is left out.
inline void RmsNormBackwardReference(const Tensor* dy, const Tensor* dsum, const Tensor& x,
                                     const Tensor* weight, double eps, double weight_offset,
                                     const Tensor* dx, const Tensor* dweight) {
  const std::int64_t d = x.row_size();
  const auto read = [](const Tensor* t, std::int64_t r, std::int64_t j) {
    return t ? Read(*t, t->row_offset(r) + j) : 0;
  };
  for (std::int64_t j = 0; dweight && j < d; ++j) dweight->base<double>()[j] = 0;
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    if (!dy) {  // the norm has no part in the gradient, whatever x holds
      for (std::int64_t j = 0; dx && j < d; ++j) {
        dx->base<double>()[dx->row_offset(r) + j] = read(dsum, r, j);
      }
      continue;
    }
    const auto g = [&](std::int64_t j) {
      return read(dy, r, j) * (weight ? Read(*weight, j) + weight_offset : 1);
    };
    double squares = 0, products = 0;
    for (std::int64_t j = 0; j < d; ++j) {
      squares += read(&x, r, j) * read(&x, r, j);
      products += g(j) * read(&x, r, j);
    }
    const double s = 1 / std::sqrt(squares / double(d) + eps);
    for (std::int64_t j = 0; j < d; ++j) {
      if (dx) {
        dx->base<double>()[dx->row_offset(r) + j] =
            s * g(j) - read(&x, r, j) * s * s * s / double(d) * products + read(dsum, r, j);
      }
      if (dweight) dweight->base<double>()[j] += read(dy, r, j) * read(&x, r, j) * s;
    }
  }
}

}  // namespace
}  // namespace anyop::ops
