// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

// Every step in f32, as the operators are defined.
void Quantize(const Context&, const Tensor& x, const Tensor& scale, const Tensor& q) {
  const float inverse = 1 / float(Read(scale, 0));
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      const float product = float(Read(x, x.row_offset(r) + j)) * inverse;
      q.base<double>()[q.row_offset(r) + j] = double(float(F8E4M3(product)));
    }
  }
}

void QuantizeDynamic(const Context&, const Tensor& x, std::int64_t group, bool pow2_scale,
                     float min_amax, const Tensor& q, const Tensor& scale) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t g = 0; g < scale.row_size(); ++g) {
      const std::int64_t from = x.row_offset(r) + g * group;
      float a = min_amax;
      for (std::int64_t j = 0; j < group; ++j) {
        const float size = std::fabs(float(Read(x, from + j)));
        if (size > a) a = size;
      }
      float s = a / 448;
      if (pow2_scale && std::isfinite(s) && s > 0) {
        int exponent = 0;
        const float fraction = std::frexp(s, &exponent);  // [0.5, 1)
        s = std::ldexp(1.0f, fraction == 0.5f ? exponent - 1 : exponent);
      }
      scale.base<double>()[scale.row_offset(r) + g] = double(s);
      for (std::int64_t j = 0; j < group; ++j) {
        const float quotient = float(Read(x, from + j)) / s;
        q.base<double>()[q.row_offset(r) + g * group + j] = double(float(F8E4M3(quotient)));
      }
    }
  }
}

}  // namespace

extern constinit const Reference quantize_fp8_reference{.op = "quantize_fp8",
                                                        .run = Bind<&Quantize>()};
extern constinit const Reference quantize_fp8_dynamic_reference{.op = "quantize_fp8_dynamic",
                                                                .run = Bind<&QuantizeDynamic>()};

}  // namespace anyop::ops
