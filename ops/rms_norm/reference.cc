// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/common/norm/reference.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor* weight, double eps, double weight_offset,
         const Tensor& y) {
  const std::int64_t d = x.row_size();
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const auto at = [&](std::int64_t i) { return Read(x, x.row_offset(r) + i); };
    double sum = 0;
    for (std::int64_t i = 0; i < d; ++i) sum += at(i) * at(i);
    const double s = 1 / std::sqrt(sum / double(d) + eps);
    for (std::int64_t i = 0; i < d; ++i) {
      const double gain = weight ? Read(*weight, i) + weight_offset : 1;
      y.base<double>()[y.row_offset(r) + i] = at(i) * s * gain;
    }
  }
}

void RunBackward(const Context&, const Tensor& dy, const Tensor& x, const Tensor* weight,
                 double eps, double weight_offset, const Tensor* dx, const Tensor* dweight) {
  RmsNormBackwardReference(&dy, nullptr, x, weight, eps, weight_offset, dx, dweight);
}

}  // namespace

extern constinit const Reference rms_norm_reference{.op = "rms_norm", .run = Bind<&Run>()};
extern constinit const Reference rms_norm_backward_reference{.op = "rms_norm_backward",
                                                             .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
