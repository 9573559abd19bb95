// SPDX-License-Identifier: Apache-2.0
// lightning_indexer: the keys of each token that score highest, for sparse attention.
//
//   score(j) = key_scale_j * sum_h weights[i, h] * query_scale[i, h] * max(0, query[i, h] . k_j)
//   indices[i, :] = the `top` visible positions j of the highest scores, rising, then -1
//   counts[i] = how many they are
//
// Which keys a token sees, and where they lie, is as in mla_decode.
//
//   weights      one for each head; a constant factor belongs to them, and changes nothing
//   key_cache    one key for all heads
//   top          all visible keys are taken where fewer are visible
//   query_scale  of queries of i8 and f8e4m3; absent: 1
//   key_scale    of each key of the cache; absent: 1
//
// Numerics  Products and sums in f32. The selection is exact: of equal scores the lower position,
//           the older key, is taken; -0 equals +0, and NaN ranks below -inf. max(0, NaN) is NaN.
//           Scores are equal more often than one thinks: every key whose products are all negative
//           scores 0. vLLM and transformers leave open which of them are taken, so that the same
//           model may attend to other keys there. Hidden keys have no influence, NaN included. No
//           visible key, or a token beyond the last sequence: the count is 0. A token's result
//           depends neither on threads nor on other tokens.
// Source    DeepSeek-V3.2-Exp.

#include "ops/lightning_indexer/kernel.h"

namespace anyop::ops {

extern const Kernel lightning_indexer_avx512_fma [[gnu::weak]];
extern const Kernel lightning_indexer_avx512_dot [[gnu::weak]];
extern const Kernel lightning_indexer_avx512 [[gnu::weak]];
extern const Kernel lightning_indexer_avx2 [[gnu::weak]];

namespace {

constexpr Kernel kPortable{
    .name = "cpu_portable", .workspace = kWorkspace<&IndexerBytes>, .run = Bind<&Run<FloatRows>>()};
constexpr const Kernel* kKernels[] = {&lightning_indexer_avx512_fma, &lightning_indexer_avx512_dot,
                                      &lightning_indexer_avx512, &lightning_indexer_avx2,
                                      &kPortable};

void Check(const Context&, const TensorShape&, const TensorShape&, const TensorShape& key_cache,
           const Tensor& block_table, const Tensor& seq_lens, const Tensor& query_start_loc,
           std::int64_t, bool, const TensorShape*, const TensorShape*) {
  for (std::int64_t s = 0; s < seq_lens.dim(0); ++s) {
    const std::int64_t keys = ReadIndex(seq_lens, s);
    if (keys <= INT32_MAX) continue;
    Refuse("seq_lens[" + std::to_string(s) + "] is " + std::to_string(keys) +
           ", but must be less than 2147483648, because indices are i32.");
  }
  CheckTables(block_table, seq_lens, &query_start_loc, key_cache, "key_cache",
              [](std::int64_t, std::int64_t) { return 0; });
}

}  // namespace

extern constinit const Op lightning_indexer{
    .signature =
        "lightning_indexer(query: T[t, h, d], weights: W[t, h], key_cache: T[nb, bs, d], "
        "block_table: B[b, mb], seq_lens: I[b], query_start_loc: I[b+1] offsets t, top: int, "
        "causal: bool = True, query_scale: f32[t, h]?, key_scale: f32[nb, bs]?) "
        "-> (indices: i32[t, top], counts: i32[t]) "
        "where T in f32 | f16 | bf16 | i8 | f8e4m3, W in f32 | f16 | bf16, B in i32 | i64, "
        "I in i32 | i64, top >= 1, bs >= 1",
    .flops = "2 * h * d * t * mb * bs",
    .bytes = "bytes(query) + bytes(weights) + bytes(T) * d * b * mb * bs + 4 * t * (top + 1)",
    .kernels = kKernels,
    .check = Bind<&Check>(),
};

}  // namespace anyop::ops
