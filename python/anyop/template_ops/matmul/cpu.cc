// SPDX-License-Identifier: Apache-2.0
// The kernel, for every instruction set: F32 is as wide as the file is compiled for.
#include "anyop/op.h"
#include "anyop/simd.h"

namespace anyop::ops {
namespace {

template <class T>
float Dot(const T* a, const T* b, std::int64_t k) {
  F32 sums = Zero();
  ForLanes(k, [&](std::int64_t i, auto count) {
    sums = Fma(LoadN(a + i, count), LoadN(b + i, count), sums);
  });
  return ReduceAdd(sums);
}

template <class T>
void RunAs(const Context& ctx, const Tensor& x, const Tensor& weight, const Tensor* bias,
           const Tensor& y) {
  const std::int64_t n = weight.dim(0), k = weight.dim(1);
  // One item is one element of y; an item costs about k / 8 ns.
  ctx.ParallelFor(x.rows() * n, 16000 / (k + 8) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t r = item / n, j = item % n;
      const float b = bias ? float(bias->base<const T>()[j]) : 0;
      y.row<T>(r)[std::size_t(j)] =
          T(Dot(x.row<const T>(r).data(), weight.row<const T>(j).data(), k) + b);
    }
  });
}

// The parameters of the signature, then the results. A parameter with `?` is a pointer.
void Run(const Context& ctx, const Tensor& x, const Tensor& weight, const Tensor* bias,
         const Tensor& y) {
  switch (x.type()) {
    case DType::kF32:
      return RunAs<float>(ctx, x, weight, bias, y);
    case DType::kF16:
      return RunAs<F16>(ctx, x, weight, bias, y);
    default:
      return RunAs<BF16>(ctx, x, weight, bias, y);
  }
}

}  // namespace

ANYOP_KERNEL(my_operator){.run = Bind<&Run>()};

}  // namespace anyop::ops
