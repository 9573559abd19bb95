// SPDX-License-Identifier: Apache-2.0
// causal_conv1d: filters each channel of sequences over time, with a state that outlives the call.
//
//   y[i, ch] = act(bias[ch] + sum_a weight[ch, a] * X[i - (k-1) + a, ch])     a < k
//
//   X is the sequence's tokens; before its first one, the state if it has one, else 0
//   conv_state         the last k1 inputs of each slot, oldest first; afterwards the last k1 of
//                      (what was there or zeros, the tokens). Absent: zeros before, nothing kept
//   query_start_loc    where each sequence's tokens begin; y is 0 for those beyond its last entry
//   state_indices      the slot of each sequence (absent: its number); -1 skips the sequence: its y
//                      is 0 and no state changes. Two of one slot: check mode refuses them
//   has_initial_state  which sequences go on from their state; absent: none. A sequence without a
//                      token is no exception: if it goes on from its state it keeps it, else its
//                      state becomes zeros, as that of every new sequence
//   activation         silu(z) = z * sigma(z)
//
// Numerics  Sums in f32 from the bias on by rising a, so that chunks of a sequence give the bits of
//           the whole when the state has the dtype of x. The state is rounded to its dtype.
// Source    Mamba, arXiv:2312.00752; vLLM 0.27.1, causal_conv1d_fn.

#include "ops/causal_conv1d/sequences.h"

namespace anyop::ops {
namespace {

void CheckData(const Context&, const Tensor&, const Tensor&, const Tensor*, const Tensor*,
               const Tensor&, const Tensor* state_indices, const Tensor*, std::string_view) {
  CheckSlots(state_indices);
}

}  // namespace

extern constinit const Op causal_conv1d{
    .signature =
        "causal_conv1d(x: T[t, c], weight: T[c, k], bias: T[c]?, conv_state: mut S[l, k1, c]?, "
        "query_start_loc: I[b+1] offsets t, state_indices: J[b]? below l, "
        "has_initial_state: bool[b]?, activation: 'none' | 'silu' = 'none') -> (y: T[t, c]) "
        "where T in f32 | f16 | bf16, S in f32 | f16 | bf16, I in i32 | i64, J in i32 | i64, "
        "k >= 1, k1 >= k - 1, given(state_indices) or l >= b",
    .flops = "2 * k * size(x)",
    .bytes = "2 * bytes(x) + bytes(weight)",
    .check_data = Bind<&CheckData>(),
};

}  // namespace anyop::ops
