// SPDX-License-Identifier: Apache-2.0
// qk_norm_rope: normalizes query and key heads, then rotates them by their position, in place.
//
//   z    = head * s * (weight + weight_offset)     s = 1 / sqrt(mean(head^2) + eps)
//   head = z, with the pairs of its first r elements rotated as rotary_embedding does
//
//   query, key     may be slices of one packed tensor
//   k_weight       not read where there is no key
//   positions      the table row of each token; -1: normalized, but not rotated
//   cos_sin_cache  cosines, then sines; see rotary_cache
//
// Numerics  In f32 from the head to the rotated pair, one rounding. rms_norm and rotary_embedding
//           one after the other round z as well.
// Source    Qwen3, arXiv:2505.09388; vLLM 0.27.1, fused_qk_norm_rope.
#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op qk_norm_rope{
    .signature =
        "qk_norm_rope(query: mut T[t, hq, d], key: mut T[t, hkv, d]?, q_weight: T[d], "
        "k_weight: T[d], positions: I[t] below p, cos_sin_cache: C[p, r], eps: float = 1e-6, "
        "weight_offset: float = 0.0, style: 'neox' | 'gptj' = 'neox') -> () "
        "where T in f32 | f16 | bf16, C in f32 | f16 | bf16, I in i32 | i64, d >= 1, r % 2 == 0, "
        "r <= d, eps >= 0",
    .flops = "7 * (size(query) + size(key))",
    .bytes = "2 * (size(query) + size(key)) * bytes(T) + t * r * bytes(C)",
};

}  // namespace anyop::ops
