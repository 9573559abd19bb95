// SPDX-License-Identifier: Apache-2.0
// sparse_mla_decode_step: one layer's sparse attention over latents, for new tokens.
//
// It begins with the layer's normalized input and ends before the last two products.
//
//   1  qr = rms_norm(linear(x, w_q_a), q_norm, eps)
//      q = linear(qr, w_q_b), of which a head has qn, dn wide, and qp, r wide, rotated
//   2  ql = qn w_uk by head: scores are taken against latents
//   3  kv = linear(x, w_kv_a): ckv = rms_norm(its first c, kv_norm, eps), kp the other r, rotated;
//      ckv and kp go into kv_cache and rope_cache
//   4  iq = linear(qr, w_iq), ik = layer_norm(linear(x, w_ik), ik_weight, ik_bias, index_eps); the
//      first r elements of each head of iq, and of ik, are rotated; ik goes into index_cache
//   5  idx = lightning_indexer(iq, linear(x, w_iw), index_cache)
//   6  y = sparse_attention(ql, qp, kv_cache, rope_cache, idx, scale)
//
//   positions        the table row that each token is rotated by; -1: it is not rotated
//   slot_mapping     where each token is stored in all three caches; -1: nowhere (two tokens in one
//                    slot: check mode refuses them)
//   seq_lens         how many tokens each sequence has, the new ones included
//   query_start_loc  where the new tokens of each sequence begin, and where the last ones end
//   top              how many keys a token attends to; all that it sees where it sees fewer
//   scale            of the scores of step 6. The indexer's own factor, (hi*di)^-0.5 of its
//                    weights, is left out: a positive constant changes no choice
//   style            pairs of the rotation of q and of the key; index_style those of the indexer
//
// The caller goes on with batch_matmul(y by head, w_uv, 'nt') and the output projection: tensor
// parallelism adds up between ranks there.
//
// Numerics  This sequence of operators, each rounding its results to T (the indexer's weights stay
//           f32). Every store comes before the reads of steps 5 and 6, so that the tokens of a call
//           see each other, causally. A call that is refused has stored nothing.
// Source    DeepSeek-V3.2-Exp.

#include <string>

#include "ops/common/blocks/block_table.h"
#include "ops/common/check_data.h"

namespace anyop::ops {
namespace {

using Unread = const TensorShape&;

// What steps 5 and 6 would refuse after tokens were stored.
void Check(const Context&, Unread, Unread, Unread, const Tensor& block_table,
           const Tensor& seq_lens, const Tensor& query_start_loc, Unread, Unread, Unread, Unread,
           Unread, Unread, Unread, Unread, Unread, Unread, Unread, Unread, Unread kv_cache, Unread,
           Unread, std::int64_t, float, float, float, std::string_view, std::string_view) {
  for (std::int64_t s = 0; s < seq_lens.dim(0); ++s) {
    const std::int64_t keys = ReadIndex(seq_lens, s);
    if (keys <= INT32_MAX) continue;
    Refuse("seq_lens[" + std::to_string(s) + "] is " + std::to_string(keys) +
           ", but must be less than 2147483648, because the indexer's positions are i32.");
  }
  CheckTables(block_table, seq_lens, &query_start_loc, kv_cache, "kv_cache",
              [](std::int64_t, std::int64_t) { return 0; });
}

void CheckSlots(const Context&, const Tensor&, const Tensor&, const Tensor& slots, const Tensor&,
                const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                const Tensor&, const Tensor&, std::int64_t, float, float, float, std::string_view,
                std::string_view) {
  Distinct taken;
  for (std::int64_t i = 0; i < slots.dim(0); ++i) {
    const std::int64_t slot = ReadIndex(slots, i);
    if (slot < 0) continue;
    taken.Add(slot, "slot_mapping[" + std::to_string(i) + "]", "a slot holds one token");
  }
}

}  // namespace

extern constinit const Op sparse_mla_decode_step{
    .signature =
        "sparse_mla_decode_step(x: T[t, dm], positions: P[t] below p, "
        "slot_mapping: M[t] below nb*bs, block_table: B[b, mb], seq_lens: I[b], "
        "query_start_loc: I[b+1] offsets t, cos_sin_cache: F[p, r], w_q_a: T[ql, dm], "
        "q_norm: T[ql], w_q_b: T[h*(dn + r), ql], w_kv_a: T[c + r, dm], kv_norm: T[c], "
        "w_uk: T[h, dn, c], w_iq: T[hi*di, ql], w_ik: T[di, dm], ik_weight: T[di], "
        "ik_bias: T[di], w_iw: T[hi, dm], kv_cache: mut T[nb, bs, c], "
        "rope_cache: mut T[nb, bs, r], index_cache: mut T[nb, bs, di], top: int, scale: float, "
        "eps: float = 1e-6, index_eps: float = 1e-6, style: 'gptj' | 'neox' = 'gptj', "
        "index_style: 'neox' | 'gptj' = 'neox') -> (y: T[t, h, c]) "
        "where T in f32 | f16 | bf16, F in f32 | f16 | bf16, P in i32 | i64, M in i32 | i64, "
        "B in i32 | i64, I in i32 | i64, r <= di, r % 2 == 0, top >= 1, bs >= 1, ql >= 1, c >= 1, "
        "di >= 1, eps >= 0, index_eps >= 0",
    .flops =
        "2 * t * (ql*dm + h*(dn + r)*ql + (c + r)*dm + h*dn*c + hi*di*ql + di*dm + hi*dm + "
        "hi*di*mb*bs + h*(2*c + r)*min(top, mb*bs))",
    .bytes =
        "bytes(x) + bytes(y) + bytes(T) * (ql*dm + h*(dn + r)*ql + (c + r)*dm + h*dn*c + hi*di*ql "
        "+ "
        "di*dm + hi*dm + di*b*mb*bs + (c + r)*t*min(top, mb*bs))",
    .means =
        "qa = linear(x, w_q_a); qr = rms_norm(qa, q_norm, eps); q = linear(qr, w_q_b); "
        "heads = reshape(q, [t, h, dn + r]); "
        "qn = slice(heads, 2, 0, dn); q_rest = slice(heads, 2, dn, dn + r); "
        "qp = rope(q_rest, positions, cos_sin_cache, 0, style); "
        "qn_by_head = transpose(qn, 0, 1); ql_by_head = batch_matmul(qn_by_head, w_uk); "
        "q_latent = transpose(ql_by_head, 0, 1); "

        "kv = linear(x, w_kv_a); kv_first = slice(kv, 1, 0, c); kv_rest = slice(kv, 1, c, c + r); "
        "normed = rms_norm(kv_first, kv_norm, eps); ckv = reshape(normed, [t, 1, c]); "
        "k_rest = reshape(kv_rest, [t, 1, r]); "
        "kp = rope(k_rest, positions, cos_sin_cache, 0, style); "

        "iq_all = linear(qr, w_iq); iq_heads = reshape(iq_all, [t, hi, di]); "
        "iq = rope(iq_heads, positions, cos_sin_cache, 0, index_style); "
        "ik_all = linear(x, w_ik); ik_normed = layer_norm(ik_all, ik_weight, ik_bias, index_eps); "
        "ik_head = reshape(ik_normed, [t, 1, di]); "
        "ik = rope(ik_head, positions, cos_sin_cache, 0, index_style); "
        "iw = linear(x, w_iw, output='f32'); "

        "latents = reshape(kv_cache, [nb, bs, 1, c]); ropes = reshape(rope_cache, [nb, bs, 1, r]); "
        "index_keys = reshape(index_cache, [nb, bs, 1, di]); "
        "reshape_and_cache(ckv, kp, latents, ropes, slot_mapping); "
        "reshape_and_cache(ik, None, index_keys, None, slot_mapping); "

        // More columns than the table has positions would all be -1.
        "idx, counts = lightning_indexer(iq, iw, index_cache, block_table, seq_lens, "
        "query_start_loc, max(min(top, mb*bs), 1)); "
        "y, lse = sparse_attention(q_latent, qp, kv_cache, rope_cache, idx, scale, block_table, "
        "seq_lens, query_start_loc)",
    .check = Bind<&Check>(),
    .check_data = Bind<&CheckSlots>(),
};

}  // namespace anyop::ops
