// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ops/common/elementwise/elementwise.h"
#include "ops/common/norm/rms_norm.h"
#include "ops/common/rotation/rotation.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
namespace {

// A normalized head for each part of the tokens, and room for whole vectors.
template <class N>
constexpr RowsWorkspace<float, N> LayoutOf(N threads, N t, N d) {
  return {Min(t, threads), d + N(std::int64_t{16})};
}
constexpr SizeText WorkspaceBytes() { return LayoutOf<SizeText>("threads", "t", "d").bytes(); }

struct HeadNorm {
  float eps, weight_offset;
  PairStyle style;
  const Tensor& table;  // [p, r]
};

// z = the head, normalized. weight: [d].
template <class T>
void NormalizeHead(const T* head, const T* weight, std::int64_t d, const HeadNorm& norm, float* z) {
  const auto load = [&](auto& v, std::int64_t i, auto count) { LoadAll(v, head + i, count); };
  const RowScale of = ScaleOf(SumOfSquares(d, load), d, norm.eps, load);
  const F32 offset = Set(norm.weight_offset);
  ForLanes(d, [&](std::int64_t i, auto n) {
    StoreN(z + i, of.Normalize(LoadN(head + i, n)) * (LoadN(weight + i, n) + offset), n);
  });
}

// head[0 : r] = z, its pairs from `first` on rotated.
template <class T>
void RotateHead(const float* z, const PairTable& block, std::int64_t first, std::int64_t pairs,
                std::int64_t half, PairStyle style, T* head) {
  if (style == PairStyle::kNeox) {
    ForLanes(pairs, [&](std::int64_t j, auto n) {
      const F32 a = LoadN(z + first + j, n), b = LoadN(z + half + first + j, n);
      const F32 c = LoadN(block.c + j, n), s = LoadN(block.s + j, n);
      StoreN(head + first + j, Fma(b, Zero() - s, a * c), n);
      StoreN(head + half + first + j, Fma(a, s, b * c), n);
    });
  } else {
    ForLanes(2 * pairs, [&](std::int64_t j, auto n) {
      const F32 c = LoadN(block.c + j, n), s = LoadN(block.s + j, n);
      StoreN(head + 2 * first + j, RotateGptj(LoadN(z + 2 * first + j, n), c, s), n);
    });
  }
}

// Normalizes the heads of token i of x, [t, h, d], and rotates them by a row of the table; a
// negative row: not.
template <class T>
void TurnHeads(const Tensor& x, std::int64_t i, const T* weight, std::int64_t row,
               const HeadNorm& norm, float* z) {
  const std::int64_t d = x.dim(2), half = norm.table.dim(1) / 2;
  const std::int64_t rotated = row < 0 ? 0 : 2 * half;
  PairTable block;
  const auto prepare = [&](std::int64_t first, std::int64_t pairs) {
    VisitFloat(norm.table.type(), [&](auto zero) {
      const auto* w = norm.table.base<const decltype(zero)>() + row * norm.table.stride(0) + first;
      block.Prepare(w, w + half, pairs, norm.style, false);
    });
  };
  const bool is_one_block = half <= kPairBlock;
  if (rotated && is_one_block) prepare(0, half);
  for (std::int64_t h = 0; h < x.dim(1); ++h) {
    T* head = x.at<T>(i, h);
    NormalizeHead(head, weight, d, norm, z);
    for (std::int64_t first = 0; 2 * first < rotated; first += kPairBlock) {
      const std::int64_t pairs = std::min(kPairBlock, half - first);
      if (!is_one_block) prepare(first, pairs);
      RotateHead(z, block, first, pairs, half, norm.style, head);
    }
    ForLanes(d - rotated, [&](std::int64_t j, auto n) {
      StoreN(head + rotated + j, LoadN(z + rotated + j, n), n);
    });
  }
}

void Run(const Context& ctx, const Tensor& query, const Tensor* key, const Tensor& q_weight,
         const Tensor& k_weight, const Tensor& positions, const Tensor& cos_sin_cache, float eps,
         float weight_offset, std::string_view style) {
  const std::int64_t tokens = query.dim(0), d = query.dim(2);
  const HeadNorm norm{eps, weight_offset, style == "neox" ? PairStyle::kNeox : PairStyle::kGptj,
                      cos_sin_cache};
  const std::int64_t elements = (query.dim(1) + (key ? key->dim(1) : 0)) * d;
  const auto layout = LayoutOf<std::int64_t>(ThreadsOf(ctx), tokens, d);
  float* rows = Placed(ctx, layout)[layout.rows];
  const std::int64_t parts = std::min<std::int64_t>(ctx.threads, tokens);
  const std::int64_t per_part = tokens / std::max<std::int64_t>(parts, 1) + 1;
  VisitFloat(query.type(), [&](auto zero) {
    using T = decltype(zero);
    const auto turn = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        float* z = rows + part * layout.row;
        for (std::int64_t i = part; i < tokens; i += parts) {
          const std::int64_t row = ReadIndex(positions, i);
          TurnHeads(query, i, q_weight.base<const T>(), row, norm, z);
          if (key) TurnHeads(*key, i, k_weight.base<const T>(), row, norm, z);
        }
      }
    };
    ctx.ParallelFor(parts, TokenGrain(elements) / per_part + 1, turn);
  });
}

}  // namespace

ANYOP_KERNEL(qk_norm_rope){.workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&Run>()};

}  // namespace anyop::ops
