// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;

void Shrink(const Context&, const Tensor& x, const Tensor& a, const Tensor& indices, double scale,
            const Tensor& y) {
  for (Index i = 0; i < y.dim(0); ++i) {
    for (Index j = 0; j < y.dim(1); ++j) {
      const Index adapter = ReadIndex(indices, i);
      double sum = 0;
      for (Index l = 0; adapter >= 0 && l < x.dim(1); ++l) {
        sum += Read(x, i * x.stride(0) + l) * Read(a, adapter * a.stride(0) + j * a.stride(1) + l);
      }
      *y.at<double>(i, j) = scale * sum;
    }
  }
}

void Expand(const Context&, const Tensor& x, const Tensor& b, const Tensor& indices,
            const Tensor& y, Index offset, bool add) {
  for (Index i = 0; i < y.dim(0); ++i) {
    const Index adapter = ReadIndex(indices, i);
    for (Index j = 0; adapter >= 0 && j < b.dim(1); ++j) {
      double* to = y.at<double>(i, offset + j);
      double sum = add ? *to : 0;
      for (Index q = 0; q < x.dim(1); ++q) {
        sum += Read(x, i * x.stride(0) + q) * Read(b, adapter * b.stride(0) + j * b.stride(1) + q);
      }
      *to = sum;
    }
  }
}

}  // namespace

extern constinit const Reference lora_shrink_reference{.op = "lora_shrink", .run = Bind<&Shrink>()};
extern constinit const Reference lora_expand_reference{.op = "lora_expand", .run = Bind<&Expand>()};

}  // namespace anyop::ops
