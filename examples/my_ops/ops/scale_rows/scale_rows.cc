// SPDX-License-Identifier: Apache-2.0
// scale_rows: multiplies each row by a factor of its own.
//
//   y[r, i] = x[r, i] * factor[r]
//
//   factor  one number per row
//
// Numerics  The product in f32, one rounding on the store to y.
// Source    definition.

#include "anyop/op.h"

namespace anyop::ops {
namespace {

template <class T>
void Run(const Context& ctx, const Tensor& x, const Tensor& factor, const Tensor& y) {
  ctx.ForRows(x, [&](std::int64_t r) {
    const auto xr = x.row<const T>(r);
    const auto yr = y.row<T>(r);
    const float f = factor.base<const float>()[factor.row_offset(r)];
    for (std::size_t i = 0; i < xr.size(); ++i) yr[i] = T(float(xr[i]) * f);
  });
}

}  // namespace

ANYOP_KERNEL(scale_rows, f32){
    .name = "cpu_portable_f32", .when = "T == f32", .run = Bind<&Run<float>>()};
ANYOP_KERNEL(scale_rows, bf16){
    .name = "cpu_portable_bf16", .when = "T == bf16", .run = Bind<&Run<BF16>>()};

extern constinit const Op scale_rows{
    .signature =
        "scale_rows(x: T[..., d], factor: f32[..., 1]) -> (y: T[..., d] over x) "
        "where T in f32 | bf16",
    .flops = "size(y)",
};

}  // namespace anyop::ops
