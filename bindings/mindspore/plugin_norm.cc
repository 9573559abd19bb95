// SPDX-License-Identifier: Apache-2.0
// What MindSpore's norms return, or are given, beside what our operators do.
#include <algorithm>
#include <cmath>
#include <limits>

#include "plugin.h"

namespace anyop::mindspore {
namespace {

double MeanSquare(const float* x, std::int64_t n) {
  constexpr int kLanes = 8;
  double sums[kLanes] = {};  // one sum alone would make each addition wait for the last
  for (std::int64_t i = 0; i < n; ++i) sums[i % kLanes] += double(x[i]) * x[i];
  double sum = 0;
  for (double s : sums) sum += s;
  return sum / double(n);
}

}  // namespace

void InverseRms(const Array& x, double epsilon, const Array& rstd) {
  const Array rows = Contiguous(ToF32(x));
  const std::int64_t d = LastOf(rows), n = RowsOf(rows);
  for (std::int64_t r = 0; r < n; ++r) {
    const double mean = MeanSquare(rows.data<float>() + r * d, d);
    rstd.data<float>()[r] = float(1 / std::sqrt(mean + epsilon));
  }
}

double EpsilonOf(const Array& x, const Array& rstd) {
  const Array rows = Contiguous(x);
  const Array inverse = Contiguous(rstd);
  const std::int64_t d = LastOf(rows), n = RowsOf(rows);
  double least = std::numeric_limits<double>::infinity(), epsilon = 0;
  for (std::int64_t r = 0; r < n; ++r) {
    const double mean = MeanSquare(rows.data<float>() + r * d, d);
    if (mean >= least) continue;
    least = mean;
    const double inverse_rms = inverse.data<float>()[r];
    epsilon = std::max(1 / (inverse_rms * inverse_rms) - mean, 0.0);
  }
  return epsilon;
}

}  // namespace anyop::mindspore
