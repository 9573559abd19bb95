// SPDX-License-Identifier: Apache-2.0
// What my_operator should compute, in double: read by tests and checks only.
#include <algorithm>
#include <cmath>
#include <limits>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

double Score(const Tensor& q, const Tensor& k, std::int64_t h, std::int64_t i, std::int64_t j) {
  double sum = 0;
  for (std::int64_t c = 0; c < q.dim(2); ++c) {
    sum +=
        Read(q, q.row_offset(h * q.dim(1) + i) + c) * Read(k, k.row_offset(h * k.dim(1) + j) + c);
  }
  return sum / std::sqrt(double(q.dim(2)));
}

void Compute(const Context&, const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
             const Tensor& y) {
  const std::int64_t t = q.dim(1), s = k.dim(1), d = q.dim(2);
  for (std::int64_t row = 0; row < q.dim(0) * t; ++row) {
    const std::int64_t h = row / t, i = row % t, last = causal ? i + s - t : s - 1;
    double* to = y.base<double>() + y.row_offset(row);
    std::fill(to, to + d, 0.0);
    double largest = -std::numeric_limits<double>::infinity(), total = 0;
    for (std::int64_t j = 0; j <= last; ++j) largest = std::fmax(largest, Score(q, k, h, i, j));
    for (std::int64_t j = 0; j <= last; ++j) {
      const double p = std::exp(Score(q, k, h, i, j) - largest);
      total += p;
      for (std::int64_t c = 0; c < d; ++c) to[c] += p * Read(v, v.row_offset(h * s + j) + c);
    }
    for (std::int64_t c = 0; total > 0 && c < d; ++c) to[c] /= total;
  }
}

}  // namespace

extern constinit const Reference my_operator_reference{.op = "my_operator",
                                                       .run = Bind<&Compute>()};

}  // namespace anyop::ops
