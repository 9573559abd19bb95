// SPDX-License-Identifier: Apache-2.0
// batch_matmul_backward: the gradients of the products of two batches of matrices.
//
//   nn  dx[b] = dz[b] y[b]^T    dy[b] = x[b]^T dz[b]
//   nt  dx[b] = dz[b] y[b]      dy[b] = dz[b]^T x[b]
//   tn  dx[b] = y[b] dz[b]^T    dy[b] = x[b] dz[b]
//
//   dz        rows and matrices may coincide (stride 0)
//   x, y      the factors as batch_matmul took them, in the same form
//
// Numerics  as batch_matmul.
// Source    definition.

#include "ops/batch_matmul/batch_matmul.h"

namespace anyop::ops {

extern ANYOP_MULTIPLY_BATCH(PairMath<float>);
extern ANYOP_MULTIPLY_BATCH(PairMath<F16>);
extern ANYOP_MULTIPLY_BATCH(SplitMath);

ANYOP_KERNEL(batch_matmul_backward, f32){
    .name = "cpu_portable_f32",
    .when = "T == f32",
    .workspace = kWorkspace<&BatchMatmulBackwardBytes<PairMath<float>>>,
    .run = Bind<&RunBatchMatmulBackward<PairMath<float>>>()};
ANYOP_KERNEL(batch_matmul_backward, f16){
    .name = "cpu_portable_f16",
    .when = "T == f16",
    .workspace = kWorkspace<&BatchMatmulBackwardBytes<PairMath<F16>>>,
    .run = Bind<&RunBatchMatmulBackward<PairMath<F16>>>()};
ANYOP_KERNEL(batch_matmul_backward, bf16){
    .name = "cpu_portable_bf16",
    .when = "T == bf16",
    .workspace = kWorkspace<&BatchMatmulBackwardBytes<SplitMath>>,
    .run = Bind<&RunBatchMatmulBackward<SplitMath>>()};

extern constinit const Op batch_matmul_backward{
    .signature =
        "batch_matmul_backward(dz: T[b, m, n], x: T[b, m, k], y: T[b, k, n], form: 'nn') "
        "-> (dx: T[b, m, k]?, dy: T[b, k, n]?) where T in f32 | f16 | bf16\n"
        "batch_matmul_backward(dz: T[b, m, n], x: T[b, m, k], y: T[b, n, k], form: 'nt') "
        "-> (dx: T[b, m, k]?, dy: T[b, n, k]?) where T in f32 | f16 | bf16\n"
        "batch_matmul_backward(dz: T[b, m, n], x: T[b, k, m], y: T[b, k, n], form: 'tn') "
        "-> (dx: T[b, k, m]?, dy: T[b, k, n]?) where T in f32 | f16 | bf16",
    .flops = "4 * b * m * n * k",
};

}  // namespace anyop::ops
