// SPDX-License-Identifier: Apache-2.0
// causal_conv1d_update: one more token for each sequence of causal_conv1d.
//
//   y[i, ch] = act(bias[ch] + sum_a weight[ch, a] * X[i, a, ch])     a < k
//
//   X[i, k-1] is the token x[i], X[i, a] for smaller a the last k-1 inputs in its state
//   conv_state     the last k1 inputs of each slot, oldest first; afterwards x[i] is the last
//   state_indices  the slot of each token (absent: its number); -1: y is 0 and no state changes.
//                  Two of one slot: check mode refuses them
//   activation     silu(z) = z * sigma(z)
//
// Numerics  As causal_conv1d with a token for each sequence, bit for bit.
// Source    Mamba, arXiv:2312.00752; vLLM 0.27.1, causal_conv1d_update.

#include "ops/causal_conv1d/sequences.h"

namespace anyop::ops {
namespace {

void CheckUpdateData(const Context&, const Tensor&, const Tensor&, const Tensor*, const Tensor&,
                     const Tensor* state_indices, std::string_view) {
  CheckSlots(state_indices);
}

}  // namespace

extern constinit const Op causal_conv1d_update{
    .signature =
        "causal_conv1d_update(x: T[b, c], weight: T[c, k], bias: T[c]?, "
        "conv_state: mut S[l, k1, c], state_indices: J[b]? below l, "
        "activation: 'none' | 'silu' = 'none') -> (y: T[b, c]) where T in f32 | f16 | bf16, "
        "S in f32 | f16 | bf16, J in i32 | i64, k >= 1, k1 >= k - 1, "
        "given(state_indices) or l >= b",
    .flops = "2 * k * size(x)",
    .bytes = "2 * bytes(x) + bytes(weight) + 2 * b * k1 * c * bytes(S)",
    .check_data = Bind<&CheckUpdateData>(),
};

}  // namespace anyop::ops
