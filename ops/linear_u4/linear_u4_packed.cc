// SPDX-License-Identifier: Apache-2.0
// linear_u4_packed: what linear_u4 computes, with a weight that pack_u4 made.
//
//   y[i, j] = sum_l x[i, l] * (q[j, l] - z[G(l), j]) * s[G(l), j] + bias[j]
//
//   packed       [n/16][k][8]: byte b of [a, l] holds q[16a + 2b, l] in its low 4 bits and
//                q[16a + 2b + 1, l] in its high ones
//   features     the true n; packed is padded to a multiple of 16
//   scale        s, a row for each group of k/g neighbours along k
//   zero         z, a byte each, or where rows are half as long 4 bits each, the low ones first;
//                absent: 8
//   bias         added to the f32 sum
//   group_index  G, the group of each l, where groups are no neighbours; the element is left out
//                where it is negative
//   input        as in linear_u4
//
// Numerics  As linear_u4, bit for bit.
// Source    vLLM 0.27.1, cpu_gemm_wna16, whose q_weight these bytes are.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op linear_u4_packed{
    .signature =
        "linear_u4_packed(x: T[..., k], packed: dense u8[n16, k, 8], features: int, "
        "scale: S[g, features], zero: u8[g, zn]?, bias: U[features]?, "
        "group_index: i32[k]? below g, input: 'exact' | 'int8' = 'exact') "
        "-> (y: T[..., features]) where T in f32 | f16 | bf16, S in f32 | f16 | bf16, "
        "U in f32 | f16 | bf16, g >= 1, k % g == 0 or given(group_index), "
        "n16 == ceil_div(features, 16), not given(zero) or zn == features or "
        "zn == ceil_div(features, 2), input == 'exact' or not given(group_index), "
        "input == 'exact' or k <= 65535 * g",
    .flops = "2 * rows(x) * features * k",
};

}  // namespace anyop::ops
