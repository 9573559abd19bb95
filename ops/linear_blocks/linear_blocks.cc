// SPDX-License-Identifier: Apache-2.0
// linear_blocks: a dense layer whose weight is in blocks of 4 or 8 bits, as GGUF files hold it.
//
//   y[i, j] = sum_l X[i, l] * W[j, l] + bias[j], W the decoded weight
//
//   weight  one row per output feature; a block is 32 neighbours of a row, blocks back to back
//   bias    added to the f32 sum
//   input   'exact': X = x; 'q8': each 32 neighbours of a row of x are quantized as q8_0 is, with
//           a scale that stays f32, and multiplied in integers
//   format  of the weight, little endian:
//
//   q4_0  18 bytes: f16 d, 16 bytes q; element j is d * ((q[j] & 15) - 8), element 16 + j is
//         d * ((q[j] >> 4) - 8)
//   q4_1  20 bytes: f16 d, f16 m, 16 bytes q; element j is d * (q[j] & 15) + m, 16 + j likewise
//   q8_0  34 bytes: f16 d, 32 signed bytes q; element j is d * q[j]
//
//   q5_0  22 bytes: f16 d, 4 bytes h, 16 bytes q; element j is d * (b - 16), b the 4 bits that q4_0
//         has there, and bit j of h above them
//   q5_1  24 bytes: f16 d, f16 m, h and q; element j is d * b + m
//   q4_K  144 bytes for 256 elements: f16 d, f16 m, 12 bytes a, 128 bytes q. Element 32*p + j, with
//         part p < 8 and j < 32, is d * s[p] * b - m * t[p]. b is q[32*(p/2) + j] & 15 for even p,
//         the same byte >> 4 for odd p. Scale s and minimum t have 6 bits:
//         p < 4   s[p] = a[p] & 63, t[p] = a[p + 4] & 63
//         p >= 4  s[p] = (a[p + 4] & 15) | (a[p - 4] >> 6) << 4,
//                 t[p] = (a[p + 4] >> 4) | (a[p] >> 6) << 4
//   q5_K  176 bytes for 256 elements: f16 d, f16 m, 12 bytes a, 32 bytes h, 128 bytes q. As q4_K,
//         and bit p of h[j] is the fifth bit of b, of value 16
//   q6_K  210 bytes for 256 elements: 128 bytes q, 64 bytes h, 16 signed bytes s, f16 d. Element
//         128*i + 32*p + j, with i < 2, p < 4 and j < 32, is d * s[8*i + 2*p + j/16] * (b - 32).
//         The low 4 bits of b are those of q[64*i + 32*(p % 2) + j], & 15 for p < 2 and >> 4 for
//         the others; the 2 bits above them are (h[32*i + j] >> 2*p) & 3
//
// Numerics  Sums in f32 for every T, one rounding on the store. 'q8': the products of a block are
//           added exactly, blocks in ascending order: a row always has the same bits alone and in a
//           batch. NaN in x gives NaN for 'exact', and any finite values for 'q8'; an infinity
//           gives NaN for 'q8'.
// Source    ggml block formats (GGUF types 2, 3, 6, 7, 8, 12, 13 and 14).

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op linear_blocks{
    .signature =
        "linear_blocks(x: T[..., 32*g], weight: dense u8[n, 18*g], bias: T[n]?, "
        "input: 'exact' | 'q8' = 'exact', format: 'q4_0' = 'q4_0') -> (y: T[..., n]) "
        "where T in f32 | f16 | bf16\n"
        "linear_blocks(x: T[..., 32*g], weight: dense u8[n, 20*g], bias: T[n]?, "
        "input: 'exact' | 'q8' = 'exact', format: 'q4_1') -> (y: T[..., n]) "
        "where T in f32 | f16 | bf16\n"
        "linear_blocks(x: T[..., 32*g], weight: dense u8[n, 34*g], bias: T[n]?, "
        "input: 'exact' | 'q8' = 'exact', format: 'q8_0') -> (y: T[..., n]) "
        "where T in f32 | f16 | bf16\n"
        "linear_blocks(x: T[..., 32*g], weight: dense u8[n, 22*g], bias: T[n]?, "
        "input: 'exact' | 'q8' = 'exact', format: 'q5_0') -> (y: T[..., n]) "
        "where T in f32 | f16 | bf16\n"
        "linear_blocks(x: T[..., 32*g], weight: dense u8[n, 24*g], bias: T[n]?, "
        "input: 'exact' | 'q8' = 'exact', format: 'q5_1') -> (y: T[..., n]) "
        "where T in f32 | f16 | bf16\n"
        "linear_blocks(x: T[..., 256*s], weight: dense u8[n, 144*s], bias: T[n]?, "
        "input: 'exact' | 'q8' = 'exact', format: 'q4_K') -> (y: T[..., n]) "
        "where T in f32 | f16 | bf16\n"
        "linear_blocks(x: T[..., 256*s], weight: dense u8[n, 176*s], bias: T[n]?, "
        "input: 'exact' | 'q8' = 'exact', format: 'q5_K') -> (y: T[..., n]) "
        "where T in f32 | f16 | bf16\n"
        "linear_blocks(x: T[..., 256*s], weight: dense u8[n, 210*s], bias: T[n]?, "
        "input: 'exact' | 'q8' = 'exact', format: 'q6_K') -> (y: T[..., n]) "
        "where T in f32 | f16 | bf16",
    .flops = "2 * size(x) * n",
    .prepack =
        "packed = pack_blocks(weight, format) if input == 'q8'; "
        "y = linear_blocks_packed(x, packed, n, bias, format) if input == 'q8'",
};

}  // namespace anyop::ops
