// SPDX-License-Identifier: Apache-2.0
// The kernel of every instruction set: each file that includes this compiles it with its own flags.
#pragma once
#include <string_view>

#include "ops/reshape_and_cache/cache_rows.h"

namespace anyop::ops {
namespace {

// Parts of a row of `bytes`, so that one part is worth 2 us at 20 GB/s.
std::int64_t Grain(std::int64_t bytes) { return 40000 / (bytes + 1) + 1; }

void Run(const Context& ctx, const Tensor& key, const Tensor* value, const Tensor& key_cache,
         const Tensor* value_cache, const Tensor& slot_mapping, const Tensor* k_scale,
         const Tensor* v_scale, std::string_view layout) {
  const bool nz = layout == "NZ";
  const CacheRows keys(key, key_cache, k_scale, nz);
  const std::int64_t tokens = slot_mapping.dim(0);
  if (!value) {
    ctx.ParallelFor(tokens, Grain(keys.bytes()), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) keys.Store(i, ReadIndex(slot_mapping, i));
    });
    return;
  }
  const CacheRows values(*value, *value_cache, v_scale, nz);
  const std::int64_t grain = Grain(keys.bytes() + values.bytes());
  ctx.ParallelFor(tokens, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t slot = ReadIndex(slot_mapping, i);
      keys.Store(i, slot);
      values.Store(i, slot);
    }
  });
}

}  // namespace
}  // namespace anyop::ops
