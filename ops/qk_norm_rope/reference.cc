// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/common/rotation/reference.h"

namespace anyop::ops {
namespace {

void Normalize(const Tensor& x, const Tensor& weight, double eps, double weight_offset) {
  const std::int64_t d = x.dim(2);
  for (std::int64_t i = 0; i < x.dim(0); ++i) {
    for (std::int64_t h = 0; h < x.dim(1); ++h) {
      double* head = x.at<double>(i, h);
      double sum = 0;
      for (std::int64_t e = 0; e < d; ++e) sum += head[e] * head[e];
      const double s = 1 / std::sqrt(sum / double(d) + eps);
      for (std::int64_t e = 0; e < d; ++e) head[e] *= s * (Read(weight, e) + weight_offset);
    }
  }
}

void Run(const Context&, const Tensor& query, const Tensor* key, const Tensor& q_weight,
         const Tensor& k_weight, const Tensor& positions, const Tensor& table, double eps,
         double weight_offset, std::string_view style) {
  Normalize(query, q_weight, eps, weight_offset);
  RotateReference(&positions, table, 0, style, false, query, query);
  if (!key) return;
  Normalize(*key, k_weight, eps, weight_offset);
  RotateReference(&positions, table, 0, style, false, *key, *key);
}

}  // namespace

extern constinit const Reference qk_norm_rope_reference{.op = "qk_norm_rope", .run = Bind<&Run>()};

}  // namespace anyop::ops
