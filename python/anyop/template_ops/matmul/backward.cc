// SPDX-License-Identifier: Apache-2.0
// my_operator_backward: the gradient of my_operator.
//
//   dx[r, i] = sum over j of dy[r, j] * weight[j, i]
//   dweight[j, i] = sum over r of dy[r, j] * x[r, i]      dbias[j] = sum over r of dy[r, j]
//
// Numerics  sums in f64; one rounding.
// Source    the derivative of the definition.

#include "anyop/op.h"

namespace anyop::ops {
namespace {

template <class T>
void RunAs(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& weight,
           const Tensor* dx, const Tensor* dweight, const Tensor* dbias) {
  const std::int64_t n = weight.dim(0), k = weight.dim(1), rows = x.rows();
  const auto at = [](const Tensor& t, std::int64_t r, std::int64_t i) {
    return double(float(t.row<const T>(r)[std::size_t(i)]));
  };
  const std::int64_t grain = 1;  // rows of dx and dweight are long work
  if (dx) {
    ctx.ParallelFor(rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        for (std::int64_t i = 0; i < k; ++i) {
          double sum = 0;
          for (std::int64_t j = 0; j < n; ++j) sum += at(dy, r, j) * at(weight, j, i);
          dx->row<T>(r)[std::size_t(i)] = T(float(sum));
        }
      }
    });
  }
  ctx.ParallelFor(n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      double total = 0;
      for (std::int64_t r = 0; r < rows; ++r) total += at(dy, r, j);
      if (dbias) dbias->base<T>()[j] = T(float(total));
      for (std::int64_t i = 0; dweight && i < k; ++i) {
        double sum = 0;
        for (std::int64_t r = 0; r < rows; ++r) sum += at(dy, r, j) * at(x, r, i);
        dweight->row<T>(j)[std::size_t(i)] = T(float(sum));
      }
    }
  });
}

// A result with `?` is a null pointer where the caller does not want it.
void Run(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor*,
         const Tensor* dx, const Tensor* dweight, const Tensor* dbias) {
  switch (x.type()) {
    case DType::kF32:
      return RunAs<float>(ctx, dy, x, weight, dx, dweight, dbias);
    case DType::kF16:
      return RunAs<F16>(ctx, dy, x, weight, dx, dweight, dbias);
    default:
      return RunAs<BF16>(ctx, dy, x, weight, dx, dweight, dbias);
  }
}

}  // namespace

ANYOP_KERNEL(my_operator_backward){.run = Bind<&Run>()};

extern constinit const Op my_operator_backward{
    .signature =
        "my_operator_backward(dy: T[..., n], x: T[..., k], weight: T[n, k], bias: T[n]?) "
        "-> (dx: T[..., k]?, dweight: T[n, k]?, dbias: T[n]?) where T in f32 | f16 | bf16",
    .flops = "4 * rows(x) * n * k",
};

}  // namespace anyop::ops
