// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

// Every step in f32, as the operator is defined.
std::int8_t QuantizeOne(float x, float r, float zero_point, float low) {
  const float product = x * r;
  const float q = std::isnan(product) ? zero_point : std::nearbyint(product) + zero_point;
  return std::int8_t(std::clamp(q, low, 127.0f));
}

void Quantize(const Context&, const Tensor& x, const Tensor& scale, const Tensor* zero_point,
              const Tensor& q) {
  const float r = 1 / float(Read(scale, 0));
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      q.base<std::int8_t>()[q.row_offset(i) + j] =
          QuantizeOne(float(Read(x, x.row_offset(i) + j)), r,
                      zero_point ? float(*zero_point->base<const std::int32_t>()) : 0, -128);
    }
  }
}

// The least and the largest of a row's numbers and `first`.
struct Range {
  float low, high;
};
Range RangeOf(const Tensor& x, std::int64_t row, Range first) {
  for (std::int64_t j = 0; j < x.row_size(); ++j) {
    const float v = float(Read(x, x.row_offset(row) + j));
    if (v < first.low) first.low = v;
    if (v > first.high) first.high = v;
  }
  return first;
}

void QuantizeDynamic(const Context&, const Tensor& x, bool asymmetric, std::string_view range_of,
                     const Tensor& q, const Tensor& scale, const Tensor& zero_point) {
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    auto [low, high] = RangeOf(x, i, {0, 0});
    float most = 127;
    if (asymmetric && range_of == "data") {
      constexpr float kInfinity = std::numeric_limits<float>::infinity();
      const Range own = RangeOf(x, i, {kInfinity, -kInfinity});
      const float steps = own.low * (255 / (own.high - own.low));
      if (steps >= -4194304 && steps <= 4194304) {
        low = own.low;
        high = own.high;
        most = kInfinity;
      }
    }
    const float range = asymmetric ? high - low : std::max(high, -low);
    const float steps = asymmetric ? 255 : 127, r = steps / range;
    const bool is_infinite = std::isinf(low) || std::isinf(high);
    float zero = 0;
    if (asymmetric && !is_infinite) {
      zero = std::min(std::nearbyint(-128 - (low == 0 ? 0 : low * r)), most);
      zero_point.base<std::int32_t>()[zero_point.row_offset(i)] = std::int32_t(zero);
    } else if (asymmetric) {
      zero_point.base<std::int32_t>()[zero_point.row_offset(i)] = 0;
    }
    scale.base<double>()[scale.row_offset(i)] = range == 0 ? 1 : range / steps;
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      const float v = float(Read(x, x.row_offset(i) + j));
      q.base<std::int8_t>()[q.row_offset(i) + j] =
          is_infinite ? 0 : QuantizeOne(v, r, zero, asymmetric ? -128 : -127);
    }
  }
}

void Dequantize(const Context&, const Tensor& q, const Tensor& scale, const Tensor* zero_point,
                DType, const Tensor& x) {
  for (std::int64_t i = 0; i < q.rows(); ++i) {
    const bool has_rows = scale.rank() > 1;
    const float s = float(Read(scale, has_rows ? scale.row_offset(i) : 0));
    const std::int64_t zero =
        zero_point ? ReadIndex(*zero_point, has_rows ? zero_point->row_offset(i) : 0) : 0;
    for (std::int64_t j = 0; j < q.row_size(); ++j) {
      const std::int64_t step = q.base<const std::int8_t>()[q.row_offset(i) + j] - zero;
      const float value = float(step) * s;
      x.base<double>()[x.row_offset(i) + j] = value;
    }
  }
}

}  // namespace

extern constinit const Reference quantize_int8_reference{.op = "quantize_int8",
                                                         .run = Bind<&Quantize>()};
extern constinit const Reference quantize_int8_dynamic_reference{.op = "quantize_int8_dynamic",
                                                                 .run = Bind<&QuantizeDynamic>()};
extern constinit const Reference dequantize_int8_reference{.op = "dequantize_int8",
                                                           .run = Bind<&Dequantize>()};

}  // namespace anyop::ops
