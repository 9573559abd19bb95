// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

// As the entry says f64 for frequencies, these are long double.
void Run(const Context&, const Tensor& positions, std::int64_t dim, double base,
         std::string_view frequencies, const Tensor& cache) {
  const std::int64_t n = dim / 4;
  for (std::int64_t i = 0; i < cache.dim(0); ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (int axis = 0; axis < 2; ++axis) {
        const std::int64_t at = ReadIndex(positions, i * positions.stride(0) + axis);
        const long double power = 4 * j + (axis == 1 && frequencies == "alternate" ? 2 : 0);
        const long double f = std::exp(-power / dim * std::log((long double)(base)));
        const float angle = at < 0 ? 0 : float(at) * float(f);
        *cache.at<double>(i, axis * n + j) = std::cos(double(angle));
        *cache.at<double>(i, 2 * n + axis * n + j) = std::sin(double(angle));
      }
    }
  }
}

}  // namespace

extern constinit const Reference rotary_cache_2d_reference{.op = "rotary_cache_2d",
                                                           .run = Bind<&Run>()};

}  // namespace anyop::ops
