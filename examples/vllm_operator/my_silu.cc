// SPDX-License-Identifier: Apache-2.0
// my_silu: the gate of a SwiGLU feed-forward layer.
//
//   y[r, j] = g * sigma(g) * u     g = x[r, j], u = x[r, d + j]
//
// Numerics  f32 for every T; one rounding, on the store to y.
// Source    arXiv:2002.05202; the example of docs/vllm_own.md.

#include "anyop/op.h"
#include "anyop/simd.h"

namespace anyop::ops {
namespace {

template <class T>
void Run(const Context& ctx, const Tensor& x, const Tensor& y) {
  ctx.ForRows(y, [&](std::int64_t r) {
    const T* gate = x.row<const T>(r).data();  // [2*d]
    T* to = y.row<T>(r).data();                // [d]
    const std::int64_t d = y.row_size();
    ForLanes(d, [&](std::int64_t j, auto count) {
      const F32 g = LoadN(gate + j, count), u = LoadN(gate + d + j, count);
      StoreN(to + j, g * Sigmoid(g) * u, count);
    });
  });
}

}  // namespace

ANYOP_KERNEL(my_silu, f32){
    .name = "cpu_portable_f32", .when = "T == f32", .run = Bind<&Run<float>>()};
ANYOP_KERNEL(my_silu, f16){
    .name = "cpu_portable_f16", .when = "T == f16", .run = Bind<&Run<F16>>()};
ANYOP_KERNEL(my_silu, bf16){
    .name = "cpu_portable_bf16", .when = "T == bf16", .run = Bind<&Run<BF16>>()};

extern constinit const Op my_silu{
    .signature = "my_silu(x: T[..., 2*d]) -> (y: T[..., d]) where T in f32 | f16 | bf16",
    .flops = "10 * size(y)",
};

}  // namespace anyop::ops
