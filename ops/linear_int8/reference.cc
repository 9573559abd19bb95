// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

// A row of x in bytes less its zero point, and its scale; the steps in f32 decide which byte it is.
struct Quantized {
  std::vector<std::int64_t> bytes;
  double scale = 1;
};
Quantized QuantizeRow(const Tensor& x, std::int64_t row) {
  Quantized q;
  float largest = 0;
  for (std::int64_t l = 0; l < x.row_size(); ++l) {
    const float v = std::fabs(float(Read(x, x.row_offset(row) + l)));
    if (v > largest) largest = v;
  }
  if (largest != 0) q.scale = largest / 127;
  const float r = 127 / largest;
  for (std::int64_t l = 0; l < x.row_size(); ++l) {
    const float v = float(Read(x, x.row_offset(row) + l)) * r;
    q.bytes.push_back(
        std::isnan(v) ? 0 : std::int64_t(std::nearbyint(std::fmax(-127, std::fmin(v, 127)))));
  }
  return q;
}

// weight(j, l) is the byte of feature j and input l; less: what is subtracted from each sum, if it
// is not in x.
template <class Weight>
void Multiply(const Quantized& x, std::int64_t n, const Tensor& weight_scale, const Tensor* bias,
              double* y, Weight&& weight, const std::vector<std::int64_t>& less = {}) {
  for (std::int64_t j = 0; j < n; ++j) {
    std::int64_t sum = less.empty() ? 0 : -less[std::size_t(j)];
    for (std::size_t l = 0; l < x.bytes.size(); ++l) {
      sum += x.bytes[l] * weight(j, std::int64_t(l));
    }
    y[j] = double(sum) * x.scale * Read(weight_scale, j) + (bias ? Read(*bias, j) : 0);
  }
}

std::int64_t ByteAt(const Tensor& t, std::int64_t at) { return t.base<const std::int8_t>()[at]; }

void LinearInt8(const Context&, const Tensor& x, const Tensor& weight, const Tensor& weight_scale,
                const Tensor* bias, const Tensor& y) {
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    Multiply(
        QuantizeRow(x, i), weight.dim(0), weight_scale, bias, y.base<double>() + y.row_offset(i),
        [&](std::int64_t j, std::int64_t l) { return ByteAt(weight, weight.row_offset(j) + l); });
  }
}

// Of each row, or one for all.
std::int64_t ZeroAt(const Tensor& x_zero, std::int64_t row) {
  return ReadIndex(x_zero, x_zero.rank() > 1 ? x_zero.row_offset(row) : 0);
}

// A row of x that is bytes.
Quantized GivenRow(const Tensor& x, const Tensor& x_scale, const Tensor* x_zero, std::int64_t row) {
  const std::int64_t zero = x_zero ? ZeroAt(*x_zero, row) : 0;
  Quantized q;
  q.scale = Read(x_scale, x_scale.rank() > 1 ? x_scale.row_offset(row) : 0);
  for (std::int64_t l = 0; l < x.row_size(); ++l) {
    q.bytes.push_back(ByteAt(x, x.row_offset(row) + l) - zero);
  }
  return q;
}

void LinearInt8Quantized(const Context&, const Tensor& x, const Tensor& x_scale,
                         const Tensor& weight, const Tensor& weight_scale, const Tensor* bias,
                         DType, const Tensor* x_zero, const Tensor& y) {
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    Multiply(GivenRow(x, x_scale, x_zero, i), weight.dim(0), weight_scale, bias,
             y.base<double>() + y.row_offset(i), [&](std::int64_t j, std::int64_t l) {
               return ByteAt(weight, weight.row_offset(j) + l);
             });
  }
}

// The byte of feature j and input l.
std::int64_t PackedByteAt(const Tensor& packed, std::int64_t j, std::int64_t l) {
  const std::int64_t at = (j / 32 * packed.dim(1) + l / 4) * 32 + j % 32;
  return ByteAt(packed, at * 4 + l % 4);
}

void LinearInt8Packed(const Context&, const Tensor& x, const Tensor& packed, std::int64_t features,
                      const Tensor& weight_scale, const Tensor* bias, const Tensor& y) {
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    Multiply(QuantizeRow(x, i), features, weight_scale, bias, y.base<double>() + y.row_offset(i),
             [&](std::int64_t j, std::int64_t l) { return PackedByteAt(packed, j, l); });
  }
}

// A weight_sum that is given is what counts, right or not.
void LinearInt8QuantizedPacked(const Context&, const Tensor& x, const Tensor& x_scale,
                               const Tensor& packed, std::int64_t features,
                               const Tensor& weight_scale, const Tensor* bias, DType,
                               const Tensor* x_zero, const Tensor* weight_sum, const Tensor& y) {
  const bool is_given = x_zero && weight_sum;
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    std::vector<std::int64_t> less;
    for (std::int64_t j = 0; is_given && j < features; ++j) {
      less.push_back(ZeroAt(*x_zero, i) * ReadIndex(*weight_sum, j));
    }
    Multiply(
        GivenRow(x, x_scale, is_given ? nullptr : x_zero, i), features, weight_scale, bias,
        y.base<double>() + y.row_offset(i),
        [&](std::int64_t j, std::int64_t l) { return PackedByteAt(packed, j, l); }, less);
  }
}

void SumWeightInt8(const Context&, const Tensor& weight, const Tensor& sum) {
  const std::int64_t n = weight.dim(-2);
  for (std::int64_t r = 0; r < weight.rows(); ++r) {
    std::int64_t total = 0;
    for (std::int64_t l = 0; l < weight.dim(-1); ++l) {
      total += ByteAt(weight, weight.row_offset(r) + l);
    }
    sum.base<std::int32_t>()[sum.row_offset(r / n) + r % n] = std::int32_t(total);
  }
}

void PackWeightInt8(const Context&, const Tensor& weight, const Tensor& packed) {
  std::int8_t* to = packed.base<std::int8_t>();
  const std::int64_t n = weight.dim(-2), panels = packed.dim(-4), fours = packed.dim(-3);
  for (std::int64_t i = 0; i < packed.size(); ++i) {
    const std::int64_t w = i % 4, j = i / 4 % 32, z = i / 128 % fours, panel = i / 128 / fours;
    const std::int64_t row = panel % panels * 32 + j, l = 4 * z + w;
    const bool inside = row < n && l < weight.dim(-1);
    const std::int64_t from = inside ? weight.row_offset(panel / panels * n + row) + l : 0;
    to[i] = inside ? std::int8_t(ByteAt(weight, from)) : std::int8_t(0);
  }
}

}  // namespace

extern constinit const Reference linear_int8_reference{.op = "linear_int8",
                                                       .run = Bind<&LinearInt8>()};
extern constinit const Reference linear_int8_quantized_reference{
    .op = "linear_int8_quantized", .run = Bind<&LinearInt8Quantized>()};
extern constinit const Reference linear_int8_packed_reference{.op = "linear_int8_packed",
                                                              .run = Bind<&LinearInt8Packed>()};
extern constinit const Reference linear_int8_quantized_packed_reference{
    .op = "linear_int8_quantized_packed", .run = Bind<&LinearInt8QuantizedPacked>()};
extern constinit const Reference sum_weight_int8_reference{.op = "sum_weight_int8",
                                                           .run = Bind<&SumWeightInt8>()};
extern constinit const Reference pack_weight_int8_reference{.op = "pack_weight_int8",
                                                            .run = Bind<&PackWeightInt8>()};

}  // namespace anyop::ops
