// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <span>
#include <string_view>

#include "anyop/op.h"
#include "ops/common/elementwise/elementwise.h"
#include "ops/common/rotation/rotation.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
namespace {

// Which axis of the positions a pair belongs to.

// blocks: sections[0] pairs of axis 0, then sections[1] of axis 1, ...
// interleaved: pair j is of axis m = j % a while j < a * sections[m], m >= 1; else of axis 0.
void FillAxes(std::span<const std::int64_t> sections, std::string_view order, std::int64_t pairs,
              std::int32_t* axis_of) {
  const auto axes = std::int64_t(sections.size());
  if (order == "interleaved") {
    for (std::int64_t j = 0; j < pairs; ++j) {
      const std::int64_t m = j % axes;
      axis_of[j] = std::int32_t(j / axes < sections[std::size_t(m)] ? m : 0);
    }
    return;
  }
  std::int64_t j = 0;
  for (std::int64_t m = 0; m < axes; ++m) {
    for (std::int64_t n = sections[std::size_t(m)]; n > 0; --n) axis_of[j++] = std::int32_t(m);
  }
}

// The axis of each pair.
template <class N>
constexpr ArrayWorkspace<std::int32_t, N> LayoutOf(N r) {
  return ArrayWorkspace<std::int32_t, N>(CeilDiv(r, N(std::int64_t{2})));
}
constexpr SizeText WorkspaceBytes() { return LayoutOf<SizeText>("r").bytes(); }

// The rotation of a call: each pair takes its cosine and sine from the table row of its axis.
struct MultiRotation {
  const Tensor& positions;      // [a, t]
  const Tensor& table;          // [p, r]
  const std::int32_t* axis_of;  // [r / 2]
  PairStyle style;

  std::int64_t half() const { return table.dim(1) / 2; }
  // The table row of a pair for a token; negative: it is left as it is.
  std::int64_t row(std::int64_t pair, std::int64_t token) const {
    return ReadIndex(positions, axis_of[pair] * positions.stride(0) + token);
  }
  bool turns_all(std::int64_t token) const {
    for (std::int64_t axis = 0; axis < positions.dim(0); ++axis) {
      if (ReadIndex(positions, axis * positions.stride(0) + token) < 0) return false;
    }
    return true;
  }

  // Cosines and sines of a token's pairs from `first` on; those of pairs without a row are not set.
  void Gather(std::int64_t token, std::int64_t first, std::int64_t pairs, float* c,
              float* s) const {
    VisitFloat(table.type(), [&](auto zero) {
      const auto* base = table.base<const decltype(zero)>();
      for (std::int64_t j = 0; j < pairs; ++j) {
        const std::int64_t at = row(first + j, token);
        if (at < 0) continue;
        c[j] = float(base[at * table.stride(0) + first + j]);
        s[j] = float(base[at * table.stride(0) + half() + first + j]);
      }
    });
  }
};

// Pair by pair, where an axis has no position: a rotation by 0 would change the bits of some.
template <class T>
void TurnSome(const MultiRotation& rotation, const Heads<T>& x, std::int64_t token,
              std::int64_t first, std::int64_t pairs, const float* c, const float* s) {
  const bool neox = rotation.style == PairStyle::kNeox;
  for (std::int64_t j = 0; j < pairs; ++j) {
    if (rotation.row(first + j, token) < 0) continue;
    const std::int64_t at = neox ? first + j : 2 * (first + j);
    const std::int64_t other = neox ? at + rotation.half() : at + 1;
    for (std::int64_t h = 0; h < x.heads; ++h) {
      T* head = x.to + h * x.to_stride;
      const float a = float(head[at]), b = float(head[other]);
      head[at] = T(a * c[j] - b * s[j]);
      head[other] = T(b * c[j] + a * s[j]);
    }
  }
}

template <class T>
void TurnToken(const MultiRotation& rotation, std::int64_t token,
               std::initializer_list<Heads<T>> all) {
  const bool neox = rotation.style == PairStyle::kNeox, turns_all = rotation.turns_all(token);
  float c[kPairBlock], s[kPairBlock];
  PairTable block;
  for (std::int64_t j = 0; j < rotation.half(); j += kPairBlock) {
    const std::int64_t pairs = std::min(kPairBlock, rotation.half() - j);
    rotation.Gather(token, j, pairs, c, s);
    if (turns_all) block.Prepare(c, s, pairs, rotation.style, false);
    for (Heads<T> x : all) {
      if (!turns_all) {
        TurnSome(rotation, x, token, j, pairs, c, s);
        continue;
      }
      x.from += neox ? j : 2 * j;
      x.to += neox ? j : 2 * j;
      if (neox) {
        RotateNeox(x, pairs, rotation.half(), block);
      } else {
        RotateGptj(x, pairs, block);
      }
    }
  }
}

void Run(const Context& ctx, const Tensor& positions, const Tensor& query, const Tensor* key,
         const Tensor& cos_sin_cache, std::span<const std::int64_t> sections,
         std::string_view order, std::string_view style) {
  const auto layout = LayoutOf<std::int64_t>(cos_sin_cache.dim(1));
  std::int32_t* axis_of = Placed(ctx, layout)[layout.elements];
  FillAxes(sections, order, cos_sin_cache.dim(1) / 2, axis_of);
  const MultiRotation rotation{positions, cos_sin_cache, axis_of,
                               style == "neox" ? PairStyle::kNeox : PairStyle::kGptj};
  const std::int64_t elements = (query.dim(1) + (key ? key->dim(1) : 0)) * query.dim(2);
  VisitFloat(query.type(), [&](auto zero) {
    using T = decltype(zero);
    ctx.ParallelFor(query.dim(0), TokenGrain(elements), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Heads<T> q = HeadsOf<T>(query, query, i);
        if (key) {
          TurnToken<T>(rotation, i, {q, HeadsOf<T>(*key, *key, i)});
        } else {
          TurnToken<T>(rotation, i, {q});
        }
      }
    });
  });
}

}  // namespace

ANYOP_KERNEL(mrope){.workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&Run>()};

}  // namespace anyop::ops
