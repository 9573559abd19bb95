// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;

// Calls f(group, row) for every row of a group.
template <class F>
void ForGroupedRows(const Tensor& offsets, F&& f) {
  for (Index g = 0; g + 1 < offsets.dim(0); ++g) {
    for (Index r = ReadIndex(offsets, g); r < ReadIndex(offsets, g + 1); ++r) f(g, r);
  }
}
void Clear(const Tensor& y) {
  for (Index r = 0; r < y.rows(); ++r) {
    std::fill_n(y.base<double>() + y.row_offset(r), y.row_size(), 0.0);
  }
}
double BiasOf(const Tensor* bias, Index g, Index j) {
  return bias ? Read(*bias, g * bias->stride(0) + j) : 0;
}
// weight[g, j, l] in panels of 32 columns, `width` neighbours along k.
double ReadPacked(const Tensor& packed, Index g, Index j, Index l, Index width) {
  const Index panel = g * packed.dim(1) + j / 32;
  return Read(packed, ((panel * packed.dim(2) + l / width) * 32 + j % 32) * width + l % width);
}
double ReadWeight(const Tensor& weight, Index g, Index j, Index l) {
  return Read(weight, g * weight.stride(0) + j * weight.stride(1) + l);
}

// weight(g, j, l) is the element of group g, feature j and input l.
template <class Weight>
void Multiply(const Tensor& x, const Tensor& offsets, const Tensor* bias, const Tensor& y,
              Weight&& weight) {
  Clear(y);
  ForGroupedRows(offsets, [&](Index g, Index r) {
    for (Index j = 0; j < y.dim(1); ++j) {
      double sum = BiasOf(bias, g, j);
      for (Index l = 0; l < x.dim(1); ++l) sum += Read(x, r * x.stride(0) + l) * weight(g, j, l);
      *y.at<double>(r, j) = sum;
    }
  });
}

void Linear(const Context&, const Tensor& x, const Tensor& weight, const Tensor& offsets,
            const Tensor* bias, const Tensor& y) {
  Multiply(x, offsets, bias, y,
           [&](Index g, Index j, Index l) { return ReadWeight(weight, g, j, l); });
}
void LinearPacked(const Context&, const Tensor& x, const Tensor& packed, Index,
                  const Tensor& offsets, const Tensor* bias, const Tensor& y) {
  Multiply(x, offsets, bias, y,
           [&](Index g, Index j, Index l) { return ReadPacked(packed, g, j, l, 2); });
}

void LinearBackward(const Context&, const Tensor& dy, const Tensor& x, const Tensor& weight,
                    const Tensor& offsets, const Tensor* dx, const Tensor* dweight,
                    const Tensor* dbias) {
  for (const Tensor* each : {dx, dweight, dbias}) {
    if (each) Clear(*each);
  }
  ForGroupedRows(offsets, [&](Index g, Index r) {
    for (Index j = 0; j < weight.dim(1); ++j) {
      const double d = Read(dy, r * dy.stride(0) + j);
      if (dbias) *dbias->at<double>(g, j) += d;
      for (Index l = 0; l < x.dim(1); ++l) {
        if (dx) *dx->at<double>(r, l) += d * ReadWeight(weight, g, j, l);
        if (dweight) *dweight->at<double>(g, j, l) += d * Read(x, r * x.stride(0) + l);
      }
    }
  });
}

// A row of x as bytes; the steps in f32 decide which byte it is. Returns the scale.
double Quantize(const Tensor& x, Index row, std::vector<double>& bytes) {
  bytes.clear();
  float largest = 0;
  for (Index l = 0; l < x.dim(1); ++l) {
    const float v = std::fabs(float(Read(x, row * x.stride(0) + l)));
    if (v > largest) largest = v;
  }
  for (Index l = 0; l < x.dim(1); ++l) {
    const float v = float(Read(x, row * x.stride(0) + l)) * (127 / largest);
    bytes.push_back(
        std::isnan(v) ? 0 : double(std::nearbyint(std::fmax(-127.0f, std::fmin(v, 127.0f)))));
  }
  return largest == 0 ? 1 : largest / 127;
}

template <class Weight>
void MultiplyInt8(const Tensor& x, const Tensor& weight_scale, const Tensor& offsets,
                  const Tensor* bias, const Tensor& y, Weight&& weight) {
  Clear(y);
  std::vector<double> q;
  ForGroupedRows(offsets, [&](Index g, Index r) {
    const double scale = Quantize(x, r, q);
    for (Index j = 0; j < y.dim(1); ++j) {
      double sum = 0;
      for (Index l = 0; l < x.dim(1); ++l) sum += q[std::size_t(l)] * weight(g, j, l);
      const double of_weight = Read(weight_scale, g * weight_scale.stride(0) + j);
      *y.at<double>(r, j) = sum * of_weight * scale + BiasOf(bias, g, j);
    }
  });
}
void LinearInt8(const Context&, const Tensor& x, const Tensor& weight, const Tensor& weight_scale,
                const Tensor& offsets, const Tensor* bias, const Tensor& y) {
  MultiplyInt8(x, weight_scale, offsets, bias, y,
               [&](Index g, Index j, Index l) { return ReadWeight(weight, g, j, l); });
}
void LinearInt8Packed(const Context&, const Tensor& x, const Tensor& packed, Index,
                      const Tensor& weight_scale, const Tensor& offsets, const Tensor* bias,
                      const Tensor& y) {
  MultiplyInt8(x, weight_scale, offsets, bias, y,
               [&](Index g, Index j, Index l) { return ReadPacked(packed, g, j, l, 4); });
}

}  // namespace

extern constinit const Reference grouped_linear_reference{.op = "grouped_linear",
                                                          .run = Bind<&Linear>()};
extern constinit const Reference grouped_linear_packed_reference{.op = "grouped_linear_packed",
                                                                 .run = Bind<&LinearPacked>()};
extern constinit const Reference grouped_linear_backward_reference{.op = "grouped_linear_backward",
                                                                   .run = Bind<&LinearBackward>()};
extern constinit const Reference grouped_linear_int8_reference{.op = "grouped_linear_int8",
                                                               .run = Bind<&LinearInt8>()};
extern constinit const Reference grouped_linear_int8_packed_reference{
    .op = "grouped_linear_int8_packed", .run = Bind<&LinearInt8Packed>()};

}  // namespace anyop::ops
