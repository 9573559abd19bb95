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
//   q4_K  144 bytes for 256 elements: f16 d, f16 m, 12 bytes with 8 scales s and 8 minima t of 6
//         bits, 128 bytes q; element 32*p + j is d*s[p] * b - m*t[p], parts 2*i and 2*i + 1 are
//         the low and the high bits of bytes 32*i + j
//   q5_K  176 bytes for 256 elements: as q4_K with 32 bytes h before q, bit p of h[j] above b
//   q6_K  210 bytes for 256 elements: 128 bytes of low 4 bits, 64 of 2 bits above them, 16 signed
//         bytes s, f16 d; element i is d*s[i/16] * (b - 32)
//
// Numerics  Sums in f32 for every T, one rounding on the store. 'q8': the products of a block are
//           added exactly, blocks in ascending order: a row always has the same bits alone and in a
//           batch. NaN in x gives NaN for 'exact', and any finite values for 'q8'; an infinity
//           gives NaN for 'q8'.
// Source    ggml block formats (GGUF types 2, 3, 6, 7, 8, 12, 13 and 14).

#include "ops/linear_blocks/kernel.h"

namespace anyop::ops {

extern const Kernel linear_blocks_avx512_vnni [[gnu::weak]];
extern const Kernel linear_blocks_avx512 [[gnu::weak]];
extern const Kernel linear_blocks_avx2 [[gnu::weak]];

namespace {

constexpr Kernel kCpu{
    .name = "cpu_portable", .workspace = kWorkspace<&BlocksBytes>, .run = Bind<&RunLinearBlocks>()};
constexpr const Kernel* kKernels[] = {&linear_blocks_avx512_vnni, &linear_blocks_avx512,
                                      &linear_blocks_avx2, &kCpu};

}  // namespace

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
    .kernels = kKernels,
};

}  // namespace anyop::ops
