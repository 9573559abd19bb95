// SPDX-License-Identifier: Apache-2.0
// linear_blocks_packed: a dense layer with bytes for x and a weight that pack_blocks made.
//
//   y[i, j] = sum_l X[i, l] * W[j, l] + bias[j]
//
//   packed    groups of 16 rows of blocks, 32 or 256 elements of k each
//   features  the true n; packed is padded to a multiple of 16
//   bias      added to the f32 sum
//   format    of the weight before it was packed
//
// Numerics  as linear_blocks with input 'q8', bit for bit.
// Source    ggml block formats, reordered.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op linear_blocks_packed{
    .signature =
        "linear_blocks_packed(x: T[..., 32*g], packed: dense u8[n16, g, 288], features: int, "
        "bias: T[features]?, format: 'q4_0' = 'q4_0') -> (y: T[..., features]) "
        "where T in f32 | f16 | bf16, n16 == ceil_div(features, 16)\n"
        "linear_blocks_packed(x: T[..., 32*g], packed: dense u8[n16, g, 320], features: int, "
        "bias: T[features]?, format: 'q4_1') -> (y: T[..., features]) "
        "where T in f32 | f16 | bf16, n16 == ceil_div(features, 16)\n"
        "linear_blocks_packed(x: T[..., 32*g], packed: dense u8[n16, g, 544], features: int, "
        "bias: T[features]?, format: 'q8_0') -> (y: T[..., features]) "
        "where T in f32 | f16 | bf16, n16 == ceil_div(features, 16)\n"
        "linear_blocks_packed(x: T[..., 32*g], packed: dense u8[n16, g, 352], features: int, "
        "bias: T[features]?, format: 'q5_0') -> (y: T[..., features]) "
        "where T in f32 | f16 | bf16, n16 == ceil_div(features, 16)\n"
        "linear_blocks_packed(x: T[..., 32*g], packed: dense u8[n16, g, 384], features: int, "
        "bias: T[features]?, format: 'q5_1') -> (y: T[..., features]) "
        "where T in f32 | f16 | bf16, n16 == ceil_div(features, 16)\n"
        "linear_blocks_packed(x: T[..., 256*s], packed: dense u8[n16, s, 2304], features: int, "
        "bias: T[features]?, format: 'q4_K') -> (y: T[..., features]) "
        "where T in f32 | f16 | bf16, n16 == ceil_div(features, 16)\n"
        "linear_blocks_packed(x: T[..., 256*s], packed: dense u8[n16, s, 2816], features: int, "
        "bias: T[features]?, format: 'q5_K') -> (y: T[..., features]) "
        "where T in f32 | f16 | bf16, n16 == ceil_div(features, 16)\n"
        "linear_blocks_packed(x: T[..., 256*s], packed: dense u8[n16, s, 3360], features: int, "
        "bias: T[features]?, format: 'q6_K') -> (y: T[..., features]) "
        "where T in f32 | f16 | bf16, n16 == ceil_div(features, 16)",
    .flops = "2 * size(x) * features",
};

}  // namespace anyop::ops
