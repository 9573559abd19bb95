// SPDX-License-Identifier: Apache-2.0
// scale: multiplies every element by one number.
//
//   y[r, i] = x[r, i] * factor
//
//   factor  the same for every element
//
// Numerics  The product in f32 for every T; one rounding, on the store to y. NaN stays NaN.
// Source    none; this operator came with the package. Change it, or copy its folder.

#include "anyop/op.h"

namespace anyop::ops {
namespace {

template <class T>
void Run(const Context& ctx, const Tensor& x, float factor, const Tensor& y) {
  ctx.ForRows(x, [&](std::int64_t r) {
    const auto xr = x.row<const T>(r);  // [d]
    const auto yr = y.row<T>(r);        // [d]
    for (std::size_t i = 0; i < xr.size(); ++i) yr[i] = T(float(xr[i]) * factor);
  });
}

}  // namespace

ANYOP_KERNEL(scale, f32){
    .name = "cpu_portable_f32", .when = "T == f32", .run = Bind<&Run<float>>()};
ANYOP_KERNEL(scale, f16){.name = "cpu_portable_f16", .when = "T == f16", .run = Bind<&Run<F16>>()};
ANYOP_KERNEL(scale, bf16){
    .name = "cpu_portable_bf16", .when = "T == bf16", .run = Bind<&Run<BF16>>()};

extern constinit const Op scale{
    .signature =
        "scale(x: T[..., d], factor: float = 2.0) -> (y: T[..., d] over x) "
        "where T in f32 | f16 | bf16",
    .flops = "size(x)",
};

}  // namespace anyop::ops
