// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;

// Copies row `row` of x to row r of y; zeros if it is negative. y is f64 where x holds floats.
void CopyRow(const Tensor& x, Index row, const Tensor& y, Index r) {
  for (Index j = 0; j < x.dim(1); ++j) {
    const double value = row < 0 ? 0 : Read(x, row * x.stride(0) + j);
    if (y.type() == DType::kI8) {
      *y.at<std::int8_t>(r, j) = std::int8_t(value);
    } else {
      *y.at<double>(r, j) = value;
    }
  }
}

void Permute(const Context&, const Tensor& x, const Tensor& ids, Index num_experts,
             const Tensor& x_sorted, const Tensor& offsets, const Tensor& source,
             const Tensor& destination) {
  const Index t = ids.dim(0), k = ids.dim(1);
  std::int32_t row = 0;
  for (Index g = -1; g < num_experts; ++g) {
    if (g >= 0) *offsets.at<std::int32_t>(g) = row;
    for (Index i = 0; i < t; ++i) {
      for (Index a = 0; a < k; ++a) {
        const Index id = ReadIndex(ids, i * ids.stride(0) + a);
        if (id < 0) *destination.at<std::int32_t>(i, a) = -1;
        if (id < 0 || id != g) continue;
        *destination.at<std::int32_t>(i, a) = row;
        *source.at<std::int32_t>(row) = std::int32_t(i * k + a);
        CopyRow(x, i, x_sorted, row++);
      }
    }
  }
  *offsets.at<std::int32_t>(num_experts) = row;
  for (; row < t * k; ++row) {
    *source.at<std::int32_t>(row) = -1;
    CopyRow(x, -1, x_sorted, row);
  }
}

// Calls f(i, a, row) for every pair that has one.
template <class F>
void ForPairs(const Tensor& destination, F&& f) {
  for (Index i = 0; i < destination.dim(0); ++i) {
    for (Index a = 0; a < destination.dim(1); ++a) {
      const Index row = ReadIndex(destination, i * destination.stride(0) + a);
      if (row >= 0) f(i, a, row);
    }
  }
}
void Clear(const Tensor& y) {
  for (Index i = 0; i < y.dim(0); ++i) std::fill_n(y.at<double>(i), y.dim(1), 0.0);
}
double WeightOf(const Tensor* weights, Index i, Index a) {
  return weights ? Read(*weights, i * weights->stride(0) + a) : 1;
}

void Unpermute(const Context&, const Tensor& x, const Tensor& destination, const Tensor* weights,
               const Tensor& y) {
  Clear(y);
  ForPairs(destination, [&](Index i, Index a, Index row) {
    for (Index j = 0; j < y.dim(1); ++j) {
      *y.at<double>(i, j) += WeightOf(weights, i, a) * Read(x, row * x.stride(0) + j);
    }
  });
}

void PermuteBackward(const Context& ctx, const Tensor& dx_sorted, const Tensor& destination,
                     const Tensor* dx) {
  if (dx) Unpermute(ctx, dx_sorted, destination, nullptr, *dx);
}

void UnpermuteBackward(const Context&, const Tensor& dy, const Tensor& x, const Tensor& destination,
                       const Tensor* weights, const Tensor* dx, const Tensor* dweights) {
  if (dx) Clear(*dx);
  if (dweights) Clear(*dweights);
  ForPairs(destination, [&](Index i, Index a, Index row) {
    for (Index j = 0; j < dy.dim(1); ++j) {
      const double gradient = Read(dy, i * dy.stride(0) + j);
      if (dx) *dx->at<double>(row, j) += WeightOf(weights, i, a) * gradient;
      if (dweights) *dweights->at<double>(i, a) += gradient * Read(x, row * x.stride(0) + j);
    }
  });
}

}  // namespace

extern constinit const Reference moe_permute_reference{.op = "moe_permute",
                                                       .run = Bind<&Permute>()};
extern constinit const Reference moe_permute_backward_reference{.op = "moe_permute_backward",
                                                                .run = Bind<&PermuteBackward>()};
extern constinit const Reference moe_unpermute_reference{.op = "moe_unpermute",
                                                         .run = Bind<&Unpermute>()};
extern constinit const Reference moe_unpermute_backward_reference{
    .op = "moe_unpermute_backward", .run = Bind<&UnpermuteBackward>()};

}  // namespace anyop::ops
