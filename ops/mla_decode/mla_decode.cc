// SPDX-License-Identifier: Apache-2.0
// mla_decode: attention of every head over one latent row per position (absorbed form).
//
//   s(j) = scale * (q_nope . c_j + q_rope . r_j)
//   y = sum_j exp(s(j)) c_j / Z, lse = ln Z, Z = sum_j exp(s(j)), j visible
//
// Sequence i has seq_lens[i] keys, those of this call included: they are in the caches already. Its
// query n of lq stands at key position P = n + seq_lens[i] - lq. Key j is visible if j <= P or the
// call is not causal. It lies in block block_table[i, j / bs] at offset j % bs.
//
//   q_nope           W_uk[h]^T q[h] of each head; the caller applies W_uv to y
//   kv_cache         latents c_j: keys and values
//   rope_cache       the rotated part of the keys; one cache of width c + r is two column slices
//   block_table      an entry of -1 hides its keys; only entries that hold visible keys are used
//   seq_lens         at most 0: no key
//   query_start_loc  where each sequence's queries begin; absent: one query for each sequence
//   scale            that of the head before absorption, not of c + r
//   return_lse       whether lse is computed; it is empty otherwise
//
// Numerics  Scores, weights and sums in f32, one rounding on the store to y. Where bf16 dot
//           instructions multiply values, a weight is the sum of two bf16, within 2^-16 of itself,
//           so that no result depends on a machine by more. Sums are relative to the largest score.
//           No visible key, or -inf for each: y is 0, lse is -inf. Hidden keys have no influence,
//           NaN included.
//           Tokens beyond the last sequence: y is 0, lse is -inf. The bits of a token depend
//           neither on threads nor on other tokens.
// Source    DeepSeek-AI 2024, arXiv:2405.04434.

#include "ops/mla_decode/kernel.h"

namespace anyop::ops {

extern const Kernel mla_decode_avx512_fma [[gnu::weak]];
extern const Kernel mla_decode_avx512_dot [[gnu::weak]];
extern const Kernel mla_decode_avx512 [[gnu::weak]];
extern const Kernel mla_decode_avx2 [[gnu::weak]];

namespace {

constexpr Kernel kPortable{
    .name = "cpu_portable", .workspace = kWorkspace<&MlaBytes>, .run = Bind<&Run<FloatRows>>()};
constexpr const Kernel* kKernels[] = {&mla_decode_avx512_fma, &mla_decode_avx512_dot,
                                      &mla_decode_avx512, &mla_decode_avx2, &kPortable};

void Check(const Context&, const TensorShape& q_nope, const TensorShape&,
           const TensorShape& kv_cache, const TensorShape&, const Tensor& block_table,
           const Tensor& seq_lens, const Tensor* query_start_loc, float, bool, bool) {
  if (q_nope.dim(1) == 0) return;
  CheckTables(block_table, seq_lens, query_start_loc, kv_cache, "kv_cache",
              [](std::int64_t, std::int64_t) { return 0; });
}

}  // namespace

extern constinit const Op mla_decode{
    .signature =
        "mla_decode(q_nope: T[t, h, c], q_rope: T[t, h, r], kv_cache: C[nb, bs, c], "
        "rope_cache: C[nb, bs, r], block_table: B[b, mb], seq_lens: I[b], "
        "query_start_loc: I[b+1]? offsets t, scale: float, causal: bool = True, "
        "return_lse: bool = False) -> (y: T[t, h, c], lse: f32[h, t*return_lse]) "
        "where T in f32 | f16 | bf16, C in f32 | f16 | bf16, B in i32 | i64, I in i32 | i64, "
        "bs >= 1, C == T, given(query_start_loc) or t == b",
    .flops = "2 * (2*c + r) * t * h * mb * bs",
    .bytes = "bytes(q_nope) + bytes(q_rope) + bytes(y) + bytes(C) * (c + r) * b * mb * bs",
    .kernels = kKernels,
    .check = Bind<&Check>(),
};

}  // namespace anyop::ops
