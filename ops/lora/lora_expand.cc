// SPDX-License-Identifier: Apache-2.0
// lora_expand: the second half of low-rank adapters, one for each token, onto a layer's output.
//
//   s[j] = sum_q x[i, q] * b[indices[i], j, q]
//   y[i, offset + j] = s[j], or y[i, offset + j] + s[j] with add
//
//   x        what lora_shrink gave
//   b        the adapters' second matrices
//   indices  the adapter of each token; -1 leaves its row of y as it is, also without add
//   offset   the first column of y that is written; other columns keep their bytes
//
// Numerics  Sums in f32, y included; one rounding.
// Source    Punica, arXiv:2310.18547.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op lora_expand{
    .signature =
        "lora_expand(x: f32[t, r], b: T[l, n, r], indices: I[t] below l, y: mut T[t, w], "
        "offset: int = 0, add: bool = True) -> () where T in f32 | f16 | bf16, I in i32 | i64, "
        "offset >= 0, offset + n <= w",
    .flops = "2 * t * r * n",
    .bytes = "bytes(x) + min(t, l) * r * n * bytes(T) + (1 + add) * t * n * bytes(T)",
};

}  // namespace anyop::ops
