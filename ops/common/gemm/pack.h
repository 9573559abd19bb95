// SPDX-License-Identifier: Apache-2.0
// Packs rows of a weight into panels, and multiplies by a weight that is packed on the way.
#pragma once
#include <atomic>
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

// Buffers of one panel each, as many as there are threads: whoever works takes a free one.
template <class T>
class PanelBuffers {
 public:
  // panels: `elements` of each of `count` buffers; taken: a byte for each.
  PanelBuffers(T* panels, unsigned char* taken, std::int64_t elements, std::int64_t count)
      : panels_(panels), elements_(elements), count_(count), taken_(taken) {
    std::memset(taken_, 0, std::size_t(count));
  }
  T* Take() const {
    for (std::int64_t i = 0;; i = i + 1 < count_ ? i + 1 : 0) {
      std::atomic_ref<unsigned char> taken(taken_[i]);
      if (!taken.exchange(1, std::memory_order_acquire)) return panels_ + i * elements_;
    }
  }
  void Return(const T* panel) const {
    const std::int64_t i = elements_ ? (panel - panels_) / elements_ : 0;  // k = 0: all are one
    std::atomic_ref<unsigned char> taken(taken_[i]);
    taken.store(0, std::memory_order_release);
  }

 private:
  T* panels_;
  std::int64_t elements_, count_;
  unsigned char* taken_;
};

template <class M, class N>
struct PackingWorkspace : PackedWorkspace<M, N> {
  Part<typename M::Weight, N> panels;  // [threads][steps][32][2]
  Part<unsigned char, N> taken;        // [threads]
  constexpr PackingWorkspace(N threads, N rows, N steps)
      : PackedWorkspace<M, N>(rows, steps),
        panels(this->template Add<typename M::Weight>(threads * steps * N(kStepWeights))),
        taken(this->template Add<unsigned char>(threads)) {}
};

// weight [n, k], rows `stride` apart, k >= 1.
template <class M, RowsProduct P, class W>
inline void MultiplyPacking(const Context& ctx, const P& p, const Placed& placed,
                            const PackingWorkspace<M, std::int64_t>& parts, const W* weight,
                            std::int64_t stride) {
  using T = typename M::Weight;
  const PanelBuffers<T> buffers(placed[parts.panels], placed[parts.taken], p.steps() * kStepWeights,
                                parts.taken.count);
  const auto multiply = [&](const auto& part, std::int64_t begin, std::int64_t end) {
    T* panel = buffers.Take();
    std::int64_t held = -1;  // the panel in the buffer
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t at = i / part.groups();
      const std::int64_t left = p.n - at * kPanel;
      const std::int64_t rows = left < kPanel ? left : kPanel;
      if (held != at) PackPanel(weight + at * kPanel * stride, stride, rows, p.k, panel);
      held = at;
      const W* next = weight + (at + 1) * kPanel * stride;
      part.MultiplyAndStore(panel, reinterpret_cast<const T*>(next), at, i % part.groups());
    }
    buffers.Return(panel);
  };
  ForPackedRows<M>(ctx, p, placed[parts.left], [&](const auto& part) {
    ctx.ParallelFor(part.groups() * p.panels(), PanelGrain<T>(part.group, p.k),
                    [&](std::int64_t b, std::int64_t e) { multiply(part, b, e); });
  });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
