// SPDX-License-Identifier: Apache-2.0
// Packs rows of a weight into panels, and multiplies by a weight that is packed on the way.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ops/common/gemm/packed.h"
#include "ops/common/transpose.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// out[z][j][w] = weight[j][2 z + w] for j < 32, z < ceil(k / 2); zero from row `rows` on and where
// k is odd.
template <class T>
inline void PackPanel(const T* weight, std::int64_t stride, std::int64_t rows, std::int64_t k,
                      T* out) {
  using Pair = std::conditional_t<sizeof(T) == 4, std::int64_t, std::int32_t>;
  using Block = Square<Pair>;
  constexpr std::int64_t kBlock = 2 * Block::kCount;  // elements of a row
  std::int64_t l = 0;
  for (; rows == kPanel && l + kBlock <= k; l += kBlock) {
#pragma GCC unroll 1
    for (std::int64_t j = 0; j < kPanel; j += Block::kCount) {
      const char* from = reinterpret_cast<const char*>(weight + j * stride + l);
      const std::int64_t from_stride = stride * std::int64_t(sizeof(T));
      Block::Transpose(from, from_stride, reinterpret_cast<char*>(out + l * kPanel + j * 2),
                       2 * kPanel * sizeof(T));
    }
  }
  for (; l < k; l += 2) {
    T* pairs = out + l * kPanel;
    for (std::int64_t j = 0; j < kPanel; ++j) {
      pairs[2 * j] = j < rows ? weight[j * stride + l] : T{};
      pairs[2 * j + 1] = j < rows && l + 1 < k ? weight[j * stride + l + 1] : T{};
    }
  }
}

// weight [n, k], rows `stride` apart, k >= 1; parts: of a workspace that packs.
template <class M, RowsProduct P, class W>
inline void MultiplyPacking(const Context& ctx, const P& p, const Placed& placed,
                            const PackedWorkspace<M, std::int64_t>& parts, const W* weight,
                            std::int64_t stride) {
  using T = typename M::Weight;
  constexpr std::int64_t kTerms = 2 * std::int64_t(sizeof(T) / sizeof(W));  // of a step
  const auto pack = [&](std::int64_t panel, std::int64_t l, std::int64_t steps, T* chunk) {
    const std::int64_t rows = Min(p.n - panel * kPanel, kPanel), first = l * kTerms;
    PackPanel(weight + panel * kPanel * stride + first, stride, rows,
              Min(p.k - first, steps * kTerms), chunk);
    return chunk;
  };
  ForPackedRows<M>(ctx, p, placed[parts.left], [&](const auto& part) {
    MultiplyRun(ctx, part, placed, parts, pack,
                [](std::int64_t, std::int64_t) -> const T* { return nullptr; });
  });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
