// SPDX-License-Identifier: Apache-2.0
// linear_u4: a dense layer with a weight of 4 bits an element: AWQ, GPTQ, compressed-tensors.
//
//   y[i, j] = sum_l x[i, l] * (q[j, l] - z[j, G(l)]) * s[j, G(l)] + bias[j]
//
//   weight       q: byte b of a row holds element 2b in its low 4 bits, 2b + 1 in its high ones
//   scale        s, of each row and group; a group is k/g neighbours along k
//   zero         z, a byte each; absent: 8
//   bias         added to the f32 sum
//   group_index  G, the group of each l, where groups are no neighbours; the element is left out
//                where it is negative
//   input        'exact': x as it is; 'int8': each row of x is quantized to bytes and a scale, as
//                quantize_int8_dynamic does it, and multiplied in integers
//
// Numerics  Sums in f32, one rounding on the store. The products of x and q - z of a group may be
//           added before their scale comes, so that they must fit f32. 'int8': the products of a
//           group are added exactly, groups in ascending order; a row has the same bits alone and
//           in a batch, and in 'exact' in batch-invariant mode. NaN in x makes its row NaN for
//           'exact' and counts as 0 for 'int8'.
// Source    AutoGPTQ, AutoAWQ, compressed-tensors; vLLM 0.27.1, cpu_gemm_wna16.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op linear_u4{
    .signature =
        "linear_u4(x: T[..., k], weight: dense u8[n, k/2], scale: S[n, g], zero: u8[n, g]?, "
        "bias: U[n]?, group_index: i32[k]? below g, input: 'exact' | 'int8' = 'exact') "
        "-> (y: T[..., n]) where T in f32 | f16 | bf16, S in f32 | f16 | bf16, "
        "U in f32 | f16 | bf16, k % 2 == 0, g >= 1, k % g == 0 or given(group_index), "
        "input == 'exact' or not given(group_index), input == 'exact' or k <= 65535 * g",
    .flops = "2 * rows(x) * n * k",
    .prepack =
        "packed = pack_u4(weight); scales = pack_groups_u4(scale); zeros = pack_groups_u4(zero); "
        "y = linear_u4_packed(x, packed, n, scales, zeros, bias, group_index, input)",
};

}  // namespace anyop::ops
