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
// Numerics  Sums in f32 for every T, one rounding on the store. 'q8': the products of a block are
//           added exactly, blocks in ascending order: a row always has the same bits alone and in a
//           batch. NaN in x gives NaN for 'exact', and any finite values for 'q8'; an infinity
//           gives NaN for 'q8'.
// Source    ggml block formats (GGUF types 2, 3 and 8).

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
        "where T in f32 | f16 | bf16",
    .flops = "2 * rows(x) * n * 32 * g",
    .kernels = kKernels,
};

}  // namespace anyop::ops
