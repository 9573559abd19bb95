// SPDX-License-Identifier: Apache-2.0
// reshape_and_cache: stores the keys and values of new tokens in their slots of a paged cache.
//
//   ND   key_cache[s / bs, s % bs, head, e] = key[i, head, e]                   s = slot_mapping[i]
//   NZ   key_cache[s / bs, x / ck, s % bs, x % ck] = key[i, head, e]            x = head * dk + e
//
//   value, value_cache  the same for values; both absent where there are keys only
//   slot_mapping        the slot of each token; -1 skips the row; key rows beyond it are ignored
//                       (of two rows in one slot either wins: check mode refuses them)
//   k_scale, v_scale    one per head, for a float row stored as i8 or f8e4m3: the cache holds
//                       x * (1 / scale); an absent scale is 1
//   layout              ND is [block, offset, head, width], NZ holds pieces of 32 bytes
//
// Numerics  Equal dtypes: the bits are copied. i8: sat(rne(x * (1 / scale))), f8e4m3: the product
//           rounded half to even and clamped to +-448; reciprocal and product each rounded to f32.
//           NaN is stored as 0 in i8. Every other byte of the caches is left alone.
// Source    vLLM 0.27.1, reshape_and_cache_flash; ms_custom_ops 0.2.0 (NZ).

#include "anyop/op.h"
#include "ops/common/check_data.h"

namespace anyop::ops {
namespace {

void CheckSlots(const Context&, const Tensor&, const Tensor*, const Tensor&, const Tensor*,
                const Tensor& slots, const Tensor*, const Tensor*, std::string_view) {
  Distinct taken;
  for (std::int64_t i = 0; i < slots.dim(0); ++i) {
    const std::int64_t slot = ReadIndex(slots, i);
    if (slot < 0) continue;
    taken.Add(slot, "slot_mapping[" + std::to_string(i) + "]", "a slot holds one row");
  }
}

}  // namespace

extern constinit const Op reshape_and_cache{
    .signature =
        "reshape_and_cache(key: K[t, h, dk], value: V[t, h, dv]?, key_cache: mut C[nb, bs, h, dk], "
        "value_cache: mut D[nb, bs, h, dv]?, slot_mapping: I[s] below nb*bs, k_scale: f32[h]?, "
        "v_scale: f32[h]?, layout: 'ND' = 'ND') -> () "
        "where K in f32 | f16 | bf16 | i8 | f8e4m3, V in f32 | f16 | bf16 | i8 | f8e4m3, "
        "C in f32 | f16 | bf16 | i8 | f8e4m3, D in f32 | f16 | bf16 | i8 | f8e4m3, "
        "I in i32 | i64, s <= t, bs >= 1, given(value) == given(value_cache), "
        "C == K or (C in i8 | f8e4m3 and K in f32 | f16 | bf16), "
        "D == V or (D in i8 | f8e4m3 and V in f32 | f16 | bf16)\n"
        "reshape_and_cache(key: K[t, h, dk], value: V[t, h, dv]?, "
        "key_cache: mut C[nb, wk, bs, ck], value_cache: mut D[nb, wv, bs, cv]?, "
        "slot_mapping: I[s] below nb*bs, k_scale: f32[h]?, v_scale: f32[h]?, layout: 'NZ') -> () "
        "where K in f32 | f16 | bf16 | i8 | f8e4m3, V in f32 | f16 | bf16 | i8 | f8e4m3, "
        "C in f16 | bf16 | i8 | f8e4m3, D in f16 | bf16 | i8 | f8e4m3, I in i32 | i64, s <= t, "
        "bs >= 1, wk*ck == h*dk, wv*cv == h*dv, ck*bytes(C) == 32, cv*bytes(D) == 32, "
        "given(value) == given(value_cache), "
        "C == K or (C in i8 | f8e4m3 and K in f32 | f16 | bf16), "
        "D == V or (D in i8 | f8e4m3 and V in f32 | f16 | bf16)",
    .bytes = "2 * bytes(key) + 2 * bytes(value)",
    .check_data = Bind<&CheckSlots>(),
};

}  // namespace anyop::ops
