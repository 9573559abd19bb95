// SPDX-License-Identifier: Apache-2.0
// kv_rmsnorm_rope_cache: the keys and values of latent attention on their way into their caches.
//
//   ckv       = kv[: c] * s * weight     s = 1 / sqrt(mean(kv[: c]^2) + eps)
//   k[j]      = a_j*cos[j] - b_j*sin[j]              j < q = r/2, z = kv[c :]
//   k[q + j]  = b_j*cos[q + j] + a_j*sin[q + j]      a_j = z[2j], b_j = z[2j + 1]
//
//   paged  k and ckv of token i go to block index[i] / bs, offset index[i] % bs of their caches
//   norm   those of token (i, l) go to cache[i, index[i, l]]
//
//   cos, sin   of each token, as wide as the rotated part; their halves need not be equal
//   index      -1: nothing is stored (two tokens in one place: check mode refuses them)
//
//   k_scale, ckv_scale    for a cache of i8, one for each element; they multiply
//   k_offset, ckv_offset  likewise, subtracted before; 0 where absent
//
//   output_kv  whether k and ckv are results too; they are empty otherwise
//
// Numerics  In f32, rounded once to each of cache and result. i8: sat(rne((x - offset) * scale)),
//           NaN is stored as 0. Every other byte of the caches is left alone.
// Source    ms_custom_ops 0.2.0, kv_rmsnorm_rope_cache.

#include "anyop/op.h"
#include "ops/common/check_data.h"

namespace anyop::ops {
namespace {

void CheckPlaces(const Context&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                 const Tensor& index, const Tensor&, const Tensor&, const Tensor*, const Tensor*,
                 const Tensor*, const Tensor*, float, bool, std::string_view cache_mode) {
  const bool paged = cache_mode == "paged";
  Distinct taken;
  const std::int64_t per_row = index.row_size();
  for (std::int64_t i = 0; i < index.size(); ++i) {
    const std::int64_t row = i / per_row;
    const std::int64_t at = ReadIndex(index, index.row_offset(row) + i % per_row);
    if (at < 0) continue;
    const std::string place =
        paged ? std::to_string(i) : std::to_string(row) + ", " + std::to_string(i % per_row);
    // Tokens of another row of the batch have places of their own.
    if (!paged && i % per_row == 0) taken = Distinct();
    taken.Add(at, "index[" + place + "]", "a place of the caches holds one token");
  }
}

}  // namespace

extern constinit const Op kv_rmsnorm_rope_cache{
    .signature =
        "kv_rmsnorm_rope_cache(kv: T[t, c + r], weight: T[c], cos: T[t, r], sin: T[t, r], "
        "index: I[t] below nb*bs, k_cache: mut C[nb, bs, r], ckv_cache: mut C[nb, bs, c], "
        "k_scale: f32[r]?, ckv_scale: f32[c]?, k_offset: f32[r]?, ckv_offset: f32[c]?, "
        "eps: float = 1e-5, output_kv: bool = False, cache_mode: 'paged' = 'paged') "
        "-> (k: T[t*output_kv, r], ckv: T[t*output_kv, c]) where T in f32 | f16 | bf16, "
        "C in f32 | f16 | bf16 | i8, I in i32 | i64, r % 2 == 0, eps >= 0, "
        "C != i8 or (given(k_scale) and given(ckv_scale))\n"
        "kv_rmsnorm_rope_cache(kv: T[b, s, c + r], weight: T[c], cos: T[b, s, r], "
        "sin: T[b, s, r], index: I[b, s] below p, k_cache: mut C[b, p, r], "
        "ckv_cache: mut C[b, p, c], k_scale: f32[r]?, ckv_scale: f32[c]?, k_offset: f32[r]?, "
        "ckv_offset: f32[c]?, eps: float = 1e-5, output_kv: bool = False, cache_mode: 'norm') "
        "-> (k: T[b*output_kv, s, r], ckv: T[b*output_kv, s, c]) where T in f32 | f16 | bf16, "
        "C in f32 | f16 | bf16 | i8, I in i32 | i64, r % 2 == 0, eps >= 0, "
        "C != i8 or (given(k_scale) and given(ckv_scale))",
    .flops = "7 * size(kv)",
    .bytes = "bytes(kv) + size(kv) * bytes(C)",
    .check_data = Bind<&CheckPlaces>(),
};

}  // namespace anyop::ops
