// SPDX-License-Identifier: Apache-2.0
// sparse_attention: attention over the latents at listed positions.
//
//   s(j) = scale * (q_nope . c_j + q_rope . r_j)
//   y = sum_j exp(s(j)) c_j / Z, lse = ln Z, Z = sum_j exp(s(j)) [+ exp(sinks[h])]
//
// j runs over indices[i, :] of token i, and no other mask applies: what chose the indices saw to
// causality. An index that occurs twice counts twice.
//
//   q_nope, q_rope   as in mla_decode, and so are kv_cache, rope_cache, block_table and
//                    query_start_loc
//   indices          -1 anywhere: none. With index 'logical' a position within the token's
//                    sequence, found through block_table; one of at least seq_lens counts as -1,
//                    and an entry of -1 in the table hides its positions. With 'physical' a slot,
//                    block * bs + offset; block_table, seq_lens and query_start_loc are not used
//   sinks            one more score for each head, with no value
//   return_lse       whether lse is computed; it is empty otherwise
//
// Numerics  Scores, weights and sums in f32, one rounding on the store to y. Where bf16 dot
//           instructions multiply values, a weight is the sum of two bf16, within 2^-16 of itself,
//           so that no result depends on a machine by more. Sums are relative to the largest score,
//           sinks included. No key: y is 0, lse is -inf or the sink. Rows that no index names have
//           no influence,
//           NaN included. Tokens beyond the last sequence (logical): y is 0, lse is -inf. The bits
//           of a token depend neither on threads nor on other tokens.
// Source    DeepSeek-V3.2-Exp; FlashMLA.

#include "ops/sparse_attention/kernel.h"

namespace anyop::ops {

extern const Kernel sparse_attention_avx512_fma [[gnu::weak]];
extern const Kernel sparse_attention_avx512_dot [[gnu::weak]];
extern const Kernel sparse_attention_avx512 [[gnu::weak]];
extern const Kernel sparse_attention_avx2 [[gnu::weak]];

namespace {

constexpr Kernel kPortable{
    .name = "cpu_portable", .workspace = kWorkspace<&SparseBytes>, .run = Bind<&Run<FloatRows>>()};
constexpr const Kernel* kKernels[] = {&sparse_attention_avx512_fma, &sparse_attention_avx512_dot,
                                      &sparse_attention_avx512, &sparse_attention_avx2, &kPortable};

std::string NameIndex(std::int64_t token, std::int64_t i, std::int64_t index) {
  return "indices[" + std::to_string(token) + ", " + std::to_string(i) + "] is " +
         std::to_string(index) + ", but ";
}

// Every index that is used must lie in the table, and in the cache.
void Check(const Context&, const TensorShape& q_nope, const TensorShape&,
           const TensorShape& kv_cache, const TensorShape&, const Tensor& indices, float,
           const Tensor* block_table, const Tensor* seq_lens, const Tensor* query_start_loc,
           const TensorShape*, bool, std::string_view word) {
  if (q_nope.dim(1) == 0) return;
  const bool is_physical = word == "physical";
  const std::int64_t blocks = kv_cache.dim(0), block_size = kv_cache.dim(1);
  const IndexedKeys keys(indices, block_size, block_table, seq_lens, query_start_loc, is_physical);
  const std::int64_t columns = is_physical ? blocks : block_table->dim(1);
  for (std::int64_t token = 0; token < indices.dim(0); ++token) {
    const std::int64_t sequence = keys.Sequence(token);
    for (std::int64_t i = 0; sequence >= 0 && i < indices.dim(1); ++i) {
      const std::int64_t index = keys.Index(token, i);
      if (!keys.IsKey(sequence, index)) continue;
      if (index / block_size >= columns) {
        const std::string of = is_physical ? " blocks of kv_cache" : " columns of block_table";
        Refuse(NameIndex(token, i, index) + "must be less than " +
               std::to_string(columns * block_size) + " (" + std::to_string(columns) + of +
               ", blocks of " + std::to_string(block_size) + "). Try -1 for no key.");
      }
      if (is_physical) continue;
      const std::int64_t column = index / block_size;
      CheckTableRow(*block_table, sequence, column, column + 1, blocks, "kv_cache");
    }
  }
}

}  // namespace

extern constinit const Op sparse_attention{
    .signature =
        "sparse_attention(q_nope: T[t, h, c], q_rope: T[t, h, r], kv_cache: T[nb, bs, c], "
        "rope_cache: T[nb, bs, r], indices: J[t, n], scale: float, block_table: B[b, mb]?, "
        "seq_lens: I[b]?, query_start_loc: I[b+1]? offsets t, sinks: f32[h]?, "
        "return_lse: bool = False, index: 'logical' | 'physical' = 'logical') "
        "-> (y: T[t, h, c], lse: f32[h, t*return_lse]) "
        "where T in f32 | f16 | bf16, J in i32 | i64, B in i32 | i64, I in i32 | i64, bs >= 1, "
        "index == 'physical' or (given(block_table) and given(seq_lens) and "
        "given(query_start_loc))",
    .flops = "2 * h * (2*c + r) * n * t",
    .bytes = "bytes(q_nope) + bytes(q_rope) + bytes(y) + bytes(T) * (c + r) * n * t",
    .kernels = kKernels,
    .check = Bind<&Check>(),
};

}  // namespace anyop::ops
