// SPDX-License-Identifier: Apache-2.0
// batch_matmul: the product of each pair of matrices of two batches.
//
//   z[b] = X[b] Y[b], X and Y the matrices after transposing where form says t
//
//   x     X, [m, k], for form 'nn' and 'nt'; its transpose for 'tn'. Strides are free along the
//         batch and the rows; a batch that is the same matrix again has stride 0
//   y     Y, [k, n], for form 'nn' and 'tn'; its transpose for 'nt'
//   form  which factor lies in memory as its transpose: none, the second or the first
//
// Numerics  Sums in f32 for every T, one rounding on the store. The order of a sum does not depend
//           on threads; in batch-invariant mode it depends on k alone. A sum over no terms is 0.
// Source    definition.

#include "ops/batch_matmul/batch_matmul.h"

namespace anyop::ops {

// Those of batch_matmul_backward.cc too.
ANYOP_MULTIPLY_BATCH(PairMath<float>);
ANYOP_MULTIPLY_BATCH(PairMath<F16>);
ANYOP_MULTIPLY_BATCH(SplitMath);

ANYOP_KERNEL(batch_matmul, f32){.name = "cpu_portable_f32",
                                .when = "T == f32",
                                .workspace = kWorkspace<&BatchMatmulBytes<PairMath<float>>>,
                                .run = Bind<&RunBatchMatmul<PairMath<float>>>()};
ANYOP_KERNEL(batch_matmul, f16){.name = "cpu_portable_f16",
                                .when = "T == f16",
                                .workspace = kWorkspace<&BatchMatmulBytes<PairMath<F16>>>,
                                .run = Bind<&RunBatchMatmul<PairMath<F16>>>()};
ANYOP_KERNEL(batch_matmul, bf16){.name = "cpu_portable_bf16",
                                 .when = "T == bf16",
                                 .workspace = kWorkspace<&BatchMatmulBytes<SplitMath>>,
                                 .run = Bind<&RunBatchMatmul<SplitMath>>()};

extern constinit const Op batch_matmul{
    .signature =
        "batch_matmul(x: T[b, m, k], y: T[b, k, n], form: 'nn' = 'nn') -> (z: T[b, m, n]) "
        "where T in f32 | f16 | bf16\n"
        "batch_matmul(x: T[b, m, k], y: T[b, n, k], form: 'nt') -> (z: T[b, m, n]) "
        "where T in f32 | f16 | bf16\n"
        "batch_matmul(x: T[b, k, m], y: T[b, k, n], form: 'tn') -> (z: T[b, m, n]) "
        "where T in f32 | f16 | bf16",
    .gradient = "batch_matmul_backward",
    .flops = "2 * b * m * n * k",
};

}  // namespace anyop::ops
