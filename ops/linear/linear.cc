// SPDX-License-Identifier: Apache-2.0
// linear: a dense layer, rows of x times rows of the weight.
//
//   y[i, j] = act(sum_l x[i, l] * weight[j, l] + bias[j])
//
//   weight      one row per output feature; rows may be strided (a slice of a merged weight)
//   bias        added to the f32 sum
//   activation  relu2 is relu(z)^2; gelu is exact (erf), gelu_tanh its approximation by tanh
//   output      'f32' leaves the result unrounded
//
// Numerics  Sums, bias and activation in f32 for every T; one rounding, on the store to y. The sums
//           have an order that does not depend on threads; a row has the same bits alone and in a
//           batch in batch-invariant mode. A sum over no terms is 0: k = 0 gives act(bias).
// Source    definition.

#include "ops/linear/linear.h"

namespace anyop::ops {

ANYOP_KERNEL(linear, f32){.name = "cpu_portable_f32",
                          .when = "T == f32",
                          .workspace = kWorkspace<&LinearBytes<PairMath<float>>>,
                          .run = Bind<&RunLinear<PairMath<float>>>()};
ANYOP_KERNEL(linear, f16){.name = "cpu_portable_f16",
                          .when = "T == f16",
                          .workspace = kWorkspace<&LinearBytes<PairMath<F16>>>,
                          .run = Bind<&RunLinear<PairMath<F16>>>()};
ANYOP_KERNEL(linear, bf16){.name = "cpu_portable_bf16",
                           .when = "T == bf16",
                           .workspace = kWorkspace<&LinearBytes<SplitMath>>,
                           .run = Bind<&RunLinear<SplitMath>>()};

extern constinit const Op linear{
    .signature =
        "linear(x: T[..., k], weight: T[n, k], bias: T[n]?, "
        "activation: " ANYOP_ACTIVATIONS
        " = 'none', output: 'same' = 'same') "
        "-> (y: T[..., n]) where T in f32 | f16 | bf16\n"
        "linear(x: T[..., k], weight: T[n, k], bias: T[n]?, "
        "activation: " ANYOP_ACTIVATIONS
        " = 'none', output: 'f32') "
        "-> (y: f32[..., n]) where T in f32 | f16 | bf16",
    .gradient = "linear_backward",
    .flops = "2 * rows(x) * n * k",
    .prepack =
        "packed = pack_weight(weight); "
        "y = linear_packed(x, packed, n, bias, activation, output)",
};

}  // namespace anyop::ops
