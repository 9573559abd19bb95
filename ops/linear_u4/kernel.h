// SPDX-License-Identifier: Apache-2.0
// The kernels of linear_u4 and linear_u4_packed.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "anyop/op.h"
#include "ops/common/gemm/buffers.h"
#include "ops/common/quantize/int8.h"
#include "ops/linear_u4/dots.h"
#include "ops/linear_u4/exact.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Beyond so many rows decoding into panels pays.
inline constexpr std::int64_t kMostFewRows = 16;
// Rows in bytes at a time: they stay in the second level of cache.
inline constexpr std::int64_t kRowsOfBytes = 128;

// What each thread has: the words of a block, and its numbers.
template <class N>
struct BlockWorkspace : Workspace<N> {
  N words_bytes, thread_bytes;
  Part<char, N> memory;          // [threads][thread_bytes]
  Part<unsigned char, N> taken;  // [threads]
  constexpr BlockWorkspace(N threads, N k, N groups)
      : words_bytes(LineBytes(k, kWordBytes)),
        thread_bytes(words_bytes + LineBytes(groups, sizeof(GroupNumbers))),
        memory(this->template Add<char>(threads * thread_bytes)),
        taken(this->template Add<unsigned char>(threads)) {}
};
template <class N>
struct FewWorkspace : BlockWorkspace<N> {
  N pitch;           // floats
  Part<float, N> x;  // [rows][pitch]
  constexpr FewWorkspace(N threads, N rows, N k, N groups)
      : BlockWorkspace<N>(threads, k, groups),
        pitch(N(16) * CeilDiv(k, N(16)) + N(16)),
        x(this->template Add<float>(Min(rows, N(kMostFewRows)) * pitch)) {}
};
template <class N>
struct DotsWorkspace : BlockWorkspace<N> {
  N pitch;                        // bytes
  Part<std::int8_t, N> q;         // [rows][pitch]
  Part<float, N> scale;           // [rows]
  Part<std::int32_t, N> sums_of;  // [rows][groups]
  constexpr DotsWorkspace(N threads, N rows, N k, N groups)
      : BlockWorkspace<N>(threads, k, groups),
        pitch(LineBytes(k, 1) + N(64)),
        q(this->template Add<std::int8_t>(Min(rows, N(kRowsOfBytes)) * pitch)),
        scale(this->template Add<float>(Min(rows, N(kRowsOfBytes)))),
        sums_of(this->template Add<std::int32_t>(Min(rows, N(kRowsOfBytes)) * groups)) {}
};
// What any of the ways takes, at its start: the first of them is laid out by code that knows no
// other.
template <class N>
struct U4Workspace : Workspace<N> {
  Part<char, N> of_way;
  Part<std::int32_t, N> order;   // [k]
  Part<std::int64_t, N> starts;  // [groups + 1]
  constexpr U4Workspace(N threads, N rows, N k, N groups, N n)
      : of_way(this->template Add<char>(
            Max(ChunksWorkspace<PairMath<float>, N>(threads, rows, k, n).bytes(),
                Max(FewWorkspace<N>(threads, rows, k, groups).bytes(),
                    DotsWorkspace<N>(threads, rows, k, groups).bytes())))),
        order(this->template Add<std::int32_t>(k)),
        starts(this->template Add<std::int64_t>(groups + N(1))) {}
};
constexpr SizeText U4Bytes() {
  return U4Workspace<SizeText>("threads", "rows(x)", "k", "g", "n").bytes();
}
constexpr SizeText U4PackedBytes() {
  return U4Workspace<SizeText>("threads", "rows(x)", "k", "g", "features").bytes();
}

struct U4Product {
  using Sum = float;
  const Tensor& x;     // [rows, k]
  const Tensor* bias;  // [n]
  const Tensor& y;     // [rows, n]
  std::int64_t rows, k, n;
  U4Groups groups;

  std::int64_t steps() const { return (k + 1) / 2; }
  std::int64_t panels() const { return CeilDiv(n, kPanel); }
  std::int64_t blocks() const { return CeilDiv(n, kWordRows); }
  void StorePanel(const float* sums, std::int64_t first, std::int64_t count,
                  std::int64_t panel) const {
    StoreColumns<kPanel>(sums, nullptr, first, count, panel * kPanel);
  }
  // sums [count][kColumns] of rows from `first` on; scale: of each of them, or null.
  template <int kColumns>
  [[gnu::noinline]] void StoreColumns(const float* sums, const float* scale, std::int64_t first,
                                      std::int64_t count, std::int64_t column) const {
    const std::int64_t columns = std::min<std::int64_t>(n - column, kColumns);
    float biases[kColumns] = {};
    if (bias) {
      VisitFloat(bias->type(), [&](auto zero) {
        const auto* from = bias->base<const decltype(zero)>() + column;
        for (std::int64_t j = 0; j < columns; ++j) biases[j] = float(from[j]);
      });
    }
    VisitFloat(y.type(), [&](auto zero) {
      for (std::int64_t r = 0; r < count; ++r) {
        const F32 factor = Set(scale ? scale[r] : 1);
        auto* to = y.base<decltype(zero)>() + y.row_offset(first + r) + column;
        ForLanes(columns, [&](std::int64_t j, auto lanes) [[gnu::always_inline]] {
          F32 v = LoadN(sums + r * kColumns + j, lanes);
          if (scale) v = v * factor;
          if (bias) v += LoadN(biases + j, lanes);
          StoreN(to + j, v, lanes);
        });
      }
    });
  }
};

// Calls multiply(a, words, numbers) for the blocks of a weight, in parallel.
template <class Words, class F>
inline void ForBlocksOfWords(const Context& ctx, const U4Product& p, const Words& words,
                             const U4Numbers& numbers, const Placed& placed,
                             const BlockWorkspace<std::int64_t>& parts, F&& multiply) {
  const ThreadBuffers<char> buffers(placed[parts.memory], placed[parts.taken], parts.thread_bytes,
                                    parts.taken.count);
  const double ns = double(p.k) * (0.5 + 0.15 * double(p.rows)) + 20;
  ctx.ParallelFor(p.blocks(), std::int64_t(2000 / ns) + 1, [&](std::int64_t b, std::int64_t e) {
    char* memory = buffers.Take();
    auto* own = reinterpret_cast<std::uint8_t*>(memory);
    auto* read = reinterpret_cast<GroupNumbers*>(memory + parts.words_bytes);
    for (std::int64_t a = b; a < e; ++a) {
      const std::uint8_t* from = own;
      if (p.groups.order) {
        words.Gather(a, p.groups.order, p.groups.count, own);
      } else {
        from = words.Of(a, 0, p.groups.count, own);
      }
      numbers.Read(a, 0, p.groups.groups, read);
      multiply(a, from, read);
    }
    buffers.Return(memory);
  });
}

// At most kMostFewRows rows.
template <class Words>
inline void MultiplyFew(const Context& ctx, const U4Product& p, const Words& words,
                        const U4Numbers& numbers) {
  const FewWorkspace<std::int64_t> parts(ThreadsOf(ctx), p.rows, p.k, p.groups.groups);
  const Placed placed(ctx, parts);
  float* x = placed[parts.x];
  VisitFloat(p.x.type(), [&](auto zero) {
    for (std::int64_t r = 0; r < p.rows; ++r) {
      const auto* from = p.x.base<const decltype(zero)>() + p.x.row_offset(r);
      float* to = x + r * parts.pitch;
      if (p.groups.order) {
        for (std::int64_t l = 0; l < p.groups.count; ++l) to[l] = float(from[p.groups.order[l]]);
      } else {
        ForLanes(p.k, [&](std::int64_t l, auto lanes) [[gnu::always_inline]] {
          StoreN(to + l, LoadN(from + l, lanes), lanes);
        });
      }
    }
  });
  const auto block = [&](std::int64_t a, const std::uint8_t* from, const GroupNumbers* read) {
    for (std::int64_t r = 0; r < p.rows; r += kFewRowsOfWords) {
      VisitRows<kFewRowsOfWords>(std::min<std::int64_t>(p.rows - r, kFewRowsOfWords), [&](auto n) {
        alignas(64) float sums[n.value * kWordRows];
        MultiplyWords<n.value>(from, p.groups, read, x + r * parts.pitch, parts.pitch, sums);
        p.StoreColumns<kWordRows>(sums, nullptr, r, n.value, a * kWordRows);
      });
    }
  };
  ForBlocksOfWords(ctx, p, words, numbers, placed, parts, block);
}

template <class Words>
inline void MultiplyMany(const Context& ctx, const U4Product& p, const Words& words,
                         const U4Numbers& numbers) {
  const RightWords<Words> right{words, numbers, p.groups};
  VisitFloat(p.x.type(), [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> rows(p.x);
    if (p.groups.order) {
      return MultiplyChunks<PairMath<float>>(ctx, p, LeftInOrder<T>{rows, p.groups}, right);
    }
    MultiplyChunks<PairMath<float>>(ctx, p, LeftRows<T>{rows}, right);
  });
}

// Bytes, scale and sums of groups of a row of x.
inline void QuantizeRowOfX(const U4Product& p, std::int64_t row, std::int8_t* q, float& scale,
                           std::int32_t* sums_of) {
  VisitFloat(p.x.type(), [&](auto zero) {
    const auto* from = p.x.base<const decltype(zero)>() + p.x.row_offset(row);
    scale = QuantizeSymmetric(from, p.k, q).scale;
  });
  for (std::int64_t i = 0; i < p.groups.groups; ++i) {
    std::int32_t sum = 0;
    for (std::int64_t l = p.groups.begin(i); l < p.groups.end(i); ++l) sum += q[l];
    sums_of[i] = sum;
  }
}

template <class Words>
inline void MultiplyInBytes(const Context& ctx, const U4Product& p, const Words& words,
                            const U4Numbers& numbers) {
  const std::int64_t groups = p.groups.groups;
  const DotsWorkspace<std::int64_t> parts(ThreadsOf(ctx), p.rows, p.k, groups);
  const Placed placed(ctx, parts);
  std::int8_t* q = placed[parts.q];
  float* scale = placed[parts.scale];
  std::int32_t* sums_of = placed[parts.sums_of];
  for (std::int64_t first = 0; first < p.rows; first += kRowsOfBytes) {
    const std::int64_t rows = std::min(kRowsOfBytes, p.rows - first);
    ctx.ParallelFor(rows, 4000 / (p.k + 10) + 1, [&](std::int64_t b, std::int64_t e) {
      for (std::int64_t r = b; r < e; ++r) {
        QuantizeRowOfX(p, first + r, q + r * parts.pitch, scale[r], sums_of + r * groups);
      }
    });
    const auto block = [&](std::int64_t a, const std::uint8_t* from, const GroupNumbers* read) {
      for (std::int64_t r = 0; r < rows; r += kDotRows) {
        VisitRows<kDotRows>(std::min<std::int64_t>(rows - r, kDotRows), [&](auto n) {
          alignas(64) float sums[n.value * kWordRows];
          const BytesOfX x{q + r * parts.pitch, parts.pitch, sums_of + r * groups};
          MultiplyDots<n.value>(from, p.groups, read, x, sums);
          p.StoreColumns<kWordRows>(sums, scale + r, first + r, n.value, a * kWordRows);
        });
      }
    };
    ForBlocksOfWords(ctx, p, words, numbers, placed, parts, block);
  }
}

// The two ways of 'exact' differ in the order of their sums, so batch-invariant mode keeps to one.
template <class Words>
inline void MultiplyU4(const Context& ctx, const U4Product& p, const Words& words,
                       const U4Numbers& numbers, std::string_view input) {
  if (input == "int8") return MultiplyInBytes(ctx, p, words, numbers);
  if (p.rows <= kMostFewRows && !ctx.batch_invariant()) {
    return MultiplyFew(ctx, p, words, numbers);
  }
  MultiplyMany(ctx, p, words, numbers);
}

inline U4Product U4ProductOf(const Context& ctx, const Tensor& x, const U4Numbers& numbers,
                             const Tensor* bias, const Tensor* group_index, const Tensor& y) {
  const std::int64_t rows = x.rows(), k = x.row_size();
  U4Groups groups{k, numbers.groups, k / numbers.groups, nullptr, nullptr};
  if (group_index) {
    const U4Workspace<std::int64_t> parts(ThreadsOf(ctx), rows, k, numbers.groups, numbers.n);
    const Placed placed(ctx, parts);
    groups = OrderGroups(*group_index, numbers.groups, placed[parts.order], placed[parts.starts]);
  }
  return {x, bias, y, rows, k, numbers.n, groups};
}

// multiply(product, words, numbers).
template <class F>
inline void WithRows(const Context& ctx, const Tensor& x, const Tensor& weight, const Tensor& scale,
                     const Tensor* zero, const Tensor* bias, const Tensor* group_index,
                     const Tensor& y, F&& multiply) {
  const U4Numbers numbers{scale, zero, false, weight.dim(0), scale.dim(1)};
  const U4Product p = U4ProductOf(ctx, x, numbers, bias, group_index, y);
  const RowsOfWords words{weight.base<const std::uint8_t>(), weight.dim(1), weight.dim(0)};
  if (p.rows != 0 && p.n != 0) multiply(p, words, numbers);
}
template <class F>
inline void WithPacked(const Context& ctx, const Tensor& x, const Tensor& packed,
                       std::int64_t features, const Tensor& scale, const Tensor* zero,
                       const Tensor* bias, const Tensor* group_index, const Tensor& y,
                       F&& multiply) {
  const U4Numbers numbers{scale, zero, true, features, scale.dim(0)};
  const U4Product p = U4ProductOf(ctx, x, numbers, bias, group_index, y);
  const PackedWords words{packed.base<const std::uint8_t>(), x.row_size()};
  if (p.rows != 0 && p.n != 0) multiply(p, words, numbers);
}

inline void RunLinearU4(const Context& ctx, const Tensor& x, const Tensor& weight,
                        const Tensor& scale, const Tensor* zero, const Tensor* bias,
                        const Tensor* group_index, std::string_view input, const Tensor& y) {
  WithRows(ctx, x, weight, scale, zero, bias, group_index, y,
           [&](const auto&... all) { MultiplyU4(ctx, all..., input); });
}
inline void RunLinearU4Packed(const Context& ctx, const Tensor& x, const Tensor& packed,
                              std::int64_t features, const Tensor& scale, const Tensor* zero,
                              const Tensor* bias, const Tensor* group_index, std::string_view input,
                              const Tensor& y) {
  WithPacked(ctx, x, packed, features, scale, zero, bias, group_index, y,
             [&](const auto&... all) { MultiplyU4(ctx, all..., input); });
}

// For input 'int8' alone.
inline void RunLinearU4InBytes(const Context& ctx, const Tensor& x, const Tensor& weight,
                               const Tensor& scale, const Tensor* zero, const Tensor* bias,
                               const Tensor* group_index, std::string_view, const Tensor& y) {
  WithRows(ctx, x, weight, scale, zero, bias, group_index, y,
           [&](const auto&... all) { MultiplyInBytes(ctx, all...); });
}
inline void RunLinearU4PackedInBytes(const Context& ctx, const Tensor& x, const Tensor& packed,
                                     std::int64_t features, const Tensor& scale, const Tensor* zero,
                                     const Tensor* bias, const Tensor* group_index,
                                     std::string_view, const Tensor& y) {
  WithPacked(ctx, x, packed, features, scale, zero, bias, group_index, y,
             [&](const auto&... all) { MultiplyInBytes(ctx, all...); });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
