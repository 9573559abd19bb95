// SPDX-License-Identifier: Apache-2.0
// my_operator_backward: the gradient of my_operator.
//
//   dx[r, i] = 2 * dy[r, 0] * x[r, i] / d
//
// Numerics  f32 for every T; one rounding.
// Source    the derivative of the definition.

#include "anyop/op.h"

namespace anyop::ops {
namespace {

template <class T>
void RunAs(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& dx) {
  ctx.ForRows(x, [&](std::int64_t r) {
    const auto xr = x.row<const T>(r);  // [d]
    const auto to = dx.row<T>(r);       // [d]
    const float g = 2 * float(dy.row<const T>(r)[0]) / float(x.row_size());
    for (std::size_t i = 0; i < xr.size(); ++i) to[i] = T(g * float(xr[i]));
  });
}

// A result with `?` is a null pointer where the caller does not want it.
void Run(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor* dx) {
  if (!dx) return;
  switch (x.type()) {
    case DType::kF32:
      return RunAs<float>(ctx, dy, x, *dx);
    case DType::kF16:
      return RunAs<F16>(ctx, dy, x, *dx);
    default:
      return RunAs<BF16>(ctx, dy, x, *dx);
  }
}

}  // namespace

ANYOP_KERNEL(my_operator_backward){.run = Bind<&Run>()};

extern constinit const Op my_operator_backward{
    .signature =
        "my_operator_backward(dy: T[..., 1], x: T[..., d]) -> (dx: T[..., d]?) "
        "where T in f32 | f16 | bf16, d >= 1",
    .flops = "2 * size(x)",
};

}  // namespace anyop::ops
