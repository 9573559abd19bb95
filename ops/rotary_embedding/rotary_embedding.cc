// SPDX-License-Identifier: Apache-2.0
// rotary_embedding: rotates pairs of elements of query and key heads by their position, in place.
//
//   (a, b) <- (a*c_j - b*s_j, b*c_j + a*s_j)     j < q = r/2
//
//   c_j = w[j], s_j = w[q + j] of the table row w = cos_sin_cache[positions[i]]; the pair (a, b) is
//   (z[j], z[q + j]) in style neox, (z[2j], z[2j+1]) in style gptj, of z = head[offset : offset+r]
//
//   positions      the table row of each token (absent: token i uses row i); -1 leaves it as it is
//   query, key     rotated in place; elements outside z keep their bits
//   cos_sin_cache  cosines, then sines; see rotary_cache
//   offset         where the rotated part of a head begins, in elements
//   inverse        rotates back: s_j = -w[q + j]
//
// Numerics  In f32 from the table as it is, both elements of a pair read before either is written;
//           one rounding.
// Source    arXiv:2104.09864; vLLM 0.27.1, rotary_embedding.
#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op rotary_embedding{
    .signature =
        "rotary_embedding(positions: I[t]? below p, query: mut T[t, hq, d], "
        "key: mut T[t, hkv, d]?, cos_sin_cache: C[p, r], offset: int = 0, "
        "style: 'neox' | 'gptj' = 'neox', inverse: bool = False) -> () "
        "where T in f32 | f16 | bf16, C in f32 | f16 | bf16, I in i32 | i64, r % 2 == 0, "
        "offset >= 0, offset + r <= d, given(positions) or p == t",
    .flops = "3 * r * (rows(query) + rows(key))",
    .bytes = "2 * r * (rows(query) + rows(key)) * bytes(T) + t * r * bytes(C)",
};

}  // namespace anyop::ops
