// SPDX-License-Identifier: Apache-2.0
// The kernel of every instruction set: each file that includes this compiles it with its own flags.
#pragma once
#include <optional>
#include <string_view>

#include "ops/reshape_and_cache/cache_rows.h"

namespace anyop::ops {
namespace {

// Parts of a row of `bytes`, so that one part is worth 2 us at 20 GB/s.
std::int64_t Grain(std::int64_t bytes) { return 40000 / (bytes + 1) + 1; }

// Stores tokens `begin` to `end`; values: null where there are keys only.
template <bool kStreams>
void StoreTokens(const CacheRows& keys, const CacheRows* values, const Tensor& slot_mapping,
                 std::int64_t begin, std::int64_t end) {
  std::int64_t next = ReadIndex(slot_mapping, begin);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t slot = next;
    if (i + 1 < end) next = ReadIndex(slot_mapping, i + 1);
    if (!kStreams && i + 1 < end) {
      keys.PrefetchSlot(next);
      if (values) values->PrefetchSlot(next);
    }
    keys.Store<kStreams>(i, slot);
    if (values) values->Store<kStreams>(i, slot);
  }
  if (kStreams) EndStream();
}

void Run(const Context& ctx, const Tensor& key, const Tensor* value, const Tensor& key_cache,
         const Tensor* value_cache, const Tensor& slot_mapping, const Tensor* k_scale,
         const Tensor* v_scale, std::string_view layout) {
  const bool nz = layout == "NZ";
  const CacheRows keys(key, key_cache, k_scale, nz);
  std::optional<CacheRows> values;
  if (value) values.emplace(*value, *value_cache, v_scale, nz);
  const std::int64_t tokens = slot_mapping.dim(0);
  const std::int64_t row_bytes = keys.bytes() + (values ? values->bytes() : 0);
  const bool streams = Streams(ctx, tokens * row_bytes);
  ctx.ParallelFor(tokens, Grain(row_bytes), [&](std::int64_t begin, std::int64_t end) {
    const auto store = streams ? &StoreTokens<true> : &StoreTokens<false>;
    store(keys, values ? &*values : nullptr, slot_mapping, begin, end);
  });
}

}  // namespace
}  // namespace anyop::ops
