// SPDX-License-Identifier: Apache-2.0
// lora_shrink: the first half of low-rank adapters, one for each token.
//
//   y[i, j] = scale * sum_l x[i, l] * a[indices[i], j, l]
//
//   a        the adapters' first matrices
//   indices  the adapter of each token; -1 gives a row of zeros
//
// Numerics  Sums in f32, kept in f32.
// Source    Punica, arXiv:2310.18547.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op lora_shrink{
    .signature =
        "lora_shrink(x: T[t, k], a: T[l, r, k], indices: I[t] below l, scale: float = 1.0) -> "
        "(y: f32[t, r]) where T in f32 | f16 | bf16, I in i32 | i64",
    .flops = "2 * t * r * k",
    .bytes = "bytes(x) + min(t, l) * r * k * bytes(T) + bytes(y)",
};

}  // namespace anyop::ops
