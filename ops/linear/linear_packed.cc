// SPDX-License-Identifier: Apache-2.0
// linear_packed: what linear computes, with a weight that pack_weight made.
//
//   y[i, j] = act(sum_l x[i, l] * weight[j, l] + bias[j])
//
//   packed      [n/32][k/2][32][2]: weight[32a + j, 2z + w] at [a, z, j, w]
//   features    the true n; packed is padded with zeros to a multiple of 32, and of 2 along k
//               (check mode refuses others: a weight of another size)
//   bias        added to the f32 sum
//   activation  as in linear
//   output      'f32' leaves the result unrounded
//
// Numerics  Sums, bias and activation in f32 for every T; one rounding, on the store to y. A sum is
//           added in ascending k (f32, f16: its even and its odd terms apart) whatever the number
//           of rows or threads, so a row always has the same bits alone and in a batch.
// Source    definition.

#include "ops/linear/linear.h"

#include "ops/common/check_data.h"

namespace anyop::ops {

namespace {

void CheckPadding(const Context&, const Tensor& x, const Tensor& packed, std::int64_t features,
                  const Tensor*, std::string_view, std::string_view) {
  const std::int64_t k = x.row_size(), pairs = packed.dim(1);
  for (std::int64_t row = 0; row < packed.dim(0) * kPanel; ++row) {
    const std::int64_t panel = row / kPanel, j = row % kPanel;
    for (std::int64_t column = row < features ? k : 0; column < 2 * pairs; ++column) {
      const std::int64_t z = column / 2, w = column % 2;
      const double value = Read(packed, ((panel * pairs + z) * kPanel + j) * 2 + w);
      if (value == 0) continue;
      Refuse("packed[" + std::to_string(panel) + ", " + std::to_string(z) + ", " +
             std::to_string(j) + ", " + std::to_string(w) + "] is " + ShowNumber(value) +
             ", but must be 0, because it lies beyond a weight of [" + std::to_string(features) +
             ", " + std::to_string(k) + "], which is [features, k]. Try the weight of that size.");
    }
  }
}

}  // namespace

ANYOP_KERNEL(linear_packed, f32){.name = "cpu_portable_f32",
                                 .when = "T == f32",
                                 .workspace = kWorkspace<&LinearPackedBytes<PairMath<float>>>,
                                 .run = Bind<&RunLinearPacked<PairMath<float>>>()};
ANYOP_KERNEL(linear_packed, f16){.name = "cpu_portable_f16",
                                 .when = "T == f16",
                                 .workspace = kWorkspace<&LinearPackedBytes<PairMath<F16>>>,
                                 .run = Bind<&RunLinearPacked<PairMath<F16>>>()};
ANYOP_KERNEL(linear_packed, bf16){.name = "cpu_portable_bf16",
                                  .when = "T == bf16",
                                  .workspace = kWorkspace<&LinearPackedBytes<SplitMath>>,
                                  .run = Bind<&RunLinearPacked<SplitMath>>()};

extern constinit const Op linear_packed{
    .signature =
        "linear_packed(x: T[..., k], packed: dense T[n32, k2, 32, 2], features: int, "
        "bias: T[features]?, activation: " ANYOP_ACTIVATIONS
        " = 'none', output: 'same' = 'same') -> (y: T[..., features]) "
        "where T in f32 | f16 | bf16, n32 == ceil_div(features, 32), k2 == ceil_div(k, 2)\n"
        "linear_packed(x: T[..., k], packed: dense T[n32, k2, 32, 2], features: int, "
        "bias: T[features]?, activation: " ANYOP_ACTIVATIONS
        " = 'none', output: 'f32') -> (y: f32[..., features]) "
        "where T in f32 | f16 | bf16, n32 == ceil_div(features, 32), k2 == ceil_div(k, 2)",
    .flops = "2 * rows(x) * features * k",
    .check_data = Bind<&CheckPadding>(),
};

}  // namespace anyop::ops
