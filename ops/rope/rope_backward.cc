// SPDX-License-Identifier: Apache-2.0
// rope_backward: the gradient of rope: dy, rotated back.
//
//   (a, b) -> (a*c_j + b*s_j, b*c_j - a*s_j)     j < q = r/2     (a, b) a pair of dy
//
//   c_j = w[j], s_j = w[q + j] of the table row w = cos_sin_cache[positions[i]]; the pair (a, b) is
//   (z[j], z[q + j]) in style neox, (z[2j], z[2j+1]) in style gptj, of z = head[offset : offset+r]
//
//   positions      the table row of each token (absent: token i uses row i); -1 copies the token
//   cos_sin_cache  cosines, then sines; see rotary_cache; it has no gradient
//   offset         where the rotated part of a head begins; elements outside it are copied
//   inverse        that of the forward pass: the gradient then rotates forward
//
// Numerics  In f32 from the table as it is, both elements of a pair read before either is written;
//           one rounding.
// Source    the transpose of arXiv:2104.09864.
#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op rope_backward{
    .signature =
        "rope_backward(dy: T[t, h, d], positions: I[t]? below p, cos_sin_cache: C[p, r], "
        "offset: int, style: 'neox' | 'gptj', inverse: bool) -> (dx: T[t, h, d]? over dy) "
        "where T in f32 | f16 | bf16, C in f32 | f16 | bf16, I in i32 | i64, r % 2 == 0, "
        "offset >= 0, offset + r <= d, given(positions) or p == t",
    .flops = "3 * r * t * h",
    .bytes = "bytes(dy) + bytes(dx) + t * r * bytes(C)",
};

}  // namespace anyop::ops
