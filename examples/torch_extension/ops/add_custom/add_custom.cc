// SPDX-License-Identifier: Apache-2.0
// add_custom: a sum of which the second part is weighted.
//
//   z = x + alpha * y
//
// Numerics  In f32 for every T, rounded after the product and after the sum.
// Source    definition.

#include "anyop/op.h"

namespace anyop::ops {
namespace {

template <class T>
void Run(const Context& ctx, const Tensor& x, const Tensor& y, float alpha, const Tensor& z) {
  ctx.ForRows(x, [&](std::int64_t r) {
    const auto xr = x.row<const T>(r), yr = y.row<const T>(r);
    const auto zr = z.row<T>(r);
    for (std::size_t i = 0; i < zr.size(); ++i) zr[i] = T(float(xr[i]) + alpha * float(yr[i]));
  });
}

// A result that nobody wants is null.
template <class T>
void Scale(const Context& ctx, const Tensor& dz, float by, const Tensor* to) {
  if (!to) return;
  ctx.ForRows(dz, [&](std::int64_t r) {
    const auto from = dz.row<const T>(r);
    const auto row = to->row<T>(r);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = T(float(from[i]) * by);
  });
}

template <class T>
void RunBackward(const Context& ctx, const Tensor& dz, float alpha, const Tensor* dx,
                 const Tensor* dy) {
  Scale<T>(ctx, dz, 1, dx);
  Scale<T>(ctx, dz, alpha, dy);
}

}  // namespace

ANYOP_KERNEL(add_custom, f32){
    .name = "cpu_portable_f32", .when = "T == f32", .run = Bind<&Run<float>>()};
ANYOP_KERNEL(add_custom, bf16){
    .name = "cpu_portable_bf16", .when = "T == bf16", .run = Bind<&Run<BF16>>()};
ANYOP_KERNEL(add_custom_backward, f32){
    .name = "cpu_portable_f32", .when = "T == f32", .run = Bind<&RunBackward<float>>()};
ANYOP_KERNEL(add_custom_backward, bf16){
    .name = "cpu_portable_bf16", .when = "T == bf16", .run = Bind<&RunBackward<BF16>>()};

extern constinit const Op add_custom{
    .signature =
        "add_custom(x: T[...], y: T[...], alpha: float = 1.0) -> (z: T[...] over x | y) "
        "where T in f32 | bf16",
    .gradient = "add_custom_backward",
    .flops = "2 * size(z)",
};

// Names wire it: dz is the gradient of z, dx and dy are those of x and y.
extern constinit const Op add_custom_backward{
    .signature =
        "add_custom_backward(dz: T[...], alpha: float) -> (dx: T[...]?, dy: T[...]?) "
        "where T in f32 | bf16",
    .flops = "2 * size(dz)",
};

}  // namespace anyop::ops
