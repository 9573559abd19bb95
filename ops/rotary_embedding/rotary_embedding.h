// SPDX-License-Identifier: Apache-2.0
// The kernel of rotary_embedding, compiled once per instruction set.
#pragma once
#include "ops/common/rotation/rotation.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

template <class T>
void RotateTokens(const Context& ctx, const Rotation& rotation, const Tensor& query,
                  const Tensor* key) {
  const std::int64_t elements = (query.dim(1) + (key ? key->dim(1) : 0)) * query.dim(2);
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = rotation.row(i);
      if (row < 0) continue;
      const Heads<T> q = HeadsOf<T>(query, query, i);
      if (key) {
        rotation.Apply(row, q, HeadsOf<T>(*key, *key, i));
      } else {
        rotation.Apply(row, q);
      }
    }
  };
  ctx.ParallelFor(query.dim(0), TokenGrain(elements), run);
}

inline void RunRotaryEmbedding(const Context& ctx, const Tensor* positions, const Tensor& query,
                               const Tensor* key, const Tensor& cos_sin_cache, std::int64_t offset,
                               std::string_view style, bool inverse) {
  const Rotation rotation(positions, cos_sin_cache, offset, style, inverse);
  switch (query.type()) {
    case DType::kF32:
      return RotateTokens<float>(ctx, rotation, query, key);
    case DType::kF16:
      return RotateTokens<F16>(ctx, rotation, query, key);
    default:
      return RotateTokens<BF16>(ctx, rotation, query, key);
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
