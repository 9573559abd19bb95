// SPDX-License-Identifier: Apache-2.0
// my_operator_backward: the gradient of my_operator.
//
//   dx[r, i] = scale * dy[r, i] * gate[r, i]      dgate[r, i] = scale * dy[r, i] * x[r, i]
//   dbias[i] = sum over r of dy[r, i]
//
// Numerics  f32 for every T, the sums in f64; one rounding.
// Source    the derivative of the definition.

#include "anyop/op.h"

namespace anyop::ops {
namespace {

template <class T>
void RunAs(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& gate, float scale,
           const Tensor* dx, const Tensor* dgate, const Tensor* dbias) {
  ctx.ForRows(x, [&](std::int64_t r) {
    const auto g = dy.row<const T>(r), a = x.row<const T>(r), b = gate.row<const T>(r);  // [d]
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (dx) dx->row<T>(r)[i] = T(scale * float(g[i]) * float(b[i]));
      if (dgate) dgate->row<T>(r)[i] = T(scale * float(g[i]) * float(a[i]));
    }
  });
  if (!dbias) return;
  for (std::int64_t i = 0; i < x.row_size(); ++i) {
    double sum = 0;
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      sum += double(float(dy.row<const T>(r)[std::size_t(i)]));
    }
    dbias->base<T>()[i] = T(float(sum));
  }
}

// A result with `?` is a null pointer where the caller does not want it.
void Run(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& gate, const Tensor*,
         float scale, const Tensor* dx, const Tensor* dgate, const Tensor* dbias) {
  switch (x.type()) {
    case DType::kF32:
      return RunAs<float>(ctx, dy, x, gate, scale, dx, dgate, dbias);
    case DType::kF16:
      return RunAs<F16>(ctx, dy, x, gate, scale, dx, dgate, dbias);
    default:
      return RunAs<BF16>(ctx, dy, x, gate, scale, dx, dgate, dbias);
  }
}

}  // namespace

ANYOP_KERNEL(my_operator_backward){.run = Bind<&Run>()};

extern constinit const Op my_operator_backward{
    .signature =
        "my_operator_backward(dy: T[..., d], x: T[..., d], gate: T[..., d], bias: T[d]?, "
        "scale: float) -> (dx: T[..., d]?, dgate: T[..., d]?, dbias: T[d]?) "
        "where T in f32 | f16 | bf16",
    .flops = "5 * size(x)",
};

}  // namespace anyop::ops
