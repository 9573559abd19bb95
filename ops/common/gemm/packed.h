// SPDX-License-Identifier: Apache-2.0
// y = activation(x weight^T + bias) with panels of packed weights: x is packed too, then tiles.
#pragma once
#include <cstdint>
#include <cstring>

#include "ops/common/gemm/amx.h"
#include "ops/common/gemm/call.h"
#include "ops/common/gemm/tile.h"
#include "ops/common/transpose.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Steps of a row of packed x.
template <class M, class N>
constexpr N LeftSteps(const N& steps) {
  if constexpr (kIsAmx<M>) return CeilDiv(steps, N(kAmxSteps)) * N(kAmxSteps);
  return steps;
}

// Rows of x that are packed at a time; bounds the workspace.
inline constexpr std::int64_t kPackedRows = 512;
template <class M, class N>
struct PackedWorkspace : Workspace<N> {
  Part<typename M::Left, N> left;  // [rows][LeftSteps][2]
  constexpr PackedWorkspace(N rows, N steps)
      : left(this->template Add<typename M::Left>(Min(rows, N(kPackedRows)) * LeftSteps<M>(steps) *
                                                  N(2))) {}
};
// Packed rows that stay in the second level of cache while all panels pass; where there are tiles,
// that level has 2 MB.
template <class M>
inline constexpr std::int64_t kGroupBytes = kIsAmx<M> ? 1 << 20 : 256 << 10;

// Packs k elements of kR rows: [k2][kR][2], zero where k is odd.
template <class Left, class T, int kR>
[[gnu::noinline]] void PackRows(const T* const (&x)[kR], std::int64_t k, Left* out) {
  std::int64_t l = 0;
  if constexpr (kR == 8 && sizeof(Left) == 2 && std::is_same_v<T, Left>) {
    for (; l + 16 <= k; l += 16) {
      using Block = Square<std::int32_t, 32>;
      Block::Transpose([&](int i) { return reinterpret_cast<const char*>(x[i] + l); },
                       reinterpret_cast<char*>(out + l * kR), 32);
    }
  }
  if constexpr (std::is_same_v<T, F16>) {  // slow to convert one by one
    for (; l + kLanes <= k; l += kLanes) {
      for (int i = 0; i < kR; ++i) {
        float row[kLanes];
        Store(row, Load(x[i] + l));
        for (int j = 0; j < kLanes; j += 2) {
          std::memcpy(out + (l + j) * kR + i * 2, row + j, sizeof(row[0]) * 2);
        }
      }
    }
  }
  for (; l + 2 <= k; l += 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kR; ++i) {
      const Left pair[2] = {Left(x[i][l]), Left(x[i][l + 1])};
      std::memcpy(out + l * kR + i * 2, pair, sizeof(pair));
    }
  }
  for (int i = 0; i < kR && l < k; ++i) {
    out[l * kR + i * 2] = Left(x[i][l]);
    out[l * kR + i * 2 + 1] = Left{};
  }
}

// Packs k elements of some rows as tiles of AMX take them: [k/32][rows][32], zeros after k.
template <class Left, class F>
[[gnu::noinline]] void PackAmxRows(std::int64_t rows, std::int64_t k, F&& row, Left* out) {
  constexpr std::int64_t kStep = 2 * kAmxSteps;
  for (std::int64_t r = 0; r < rows; ++r) {
    const Left* x = row(r);
    Left* to = out + r * kStep;
    std::int64_t l = 0;
    for (; l + kStep <= k; l += kStep, to += rows * kStep) {
      std::memcpy(to, x + l, kStep * sizeof(Left));
    }
    if (l == k) continue;
    std::memset(to, 0, kStep * sizeof(Left));
    std::memcpy(to, x + l, std::size_t(k - l) * sizeof(Left));
  }
}

#define ANYOP_PACK_ROWS_OF(Left, T, kR) \
  template void PackRows<Left, T, kR>(const T* const(&)[kR], std::int64_t, Left*)
// For every number of rows that a block can have.
#define ANYOP_PACK_ROWS(prefix, Left, T) \
  prefix ANYOP_PACK_ROWS_OF(Left, T, 1); \
  prefix ANYOP_PACK_ROWS_OF(Left, T, 2); \
  prefix ANYOP_PACK_ROWS_OF(Left, T, 3); \
  prefix ANYOP_PACK_ROWS_OF(Left, T, 4); \
  prefix ANYOP_PACK_ROWS_OF(Left, T, 5); \
  prefix ANYOP_PACK_ROWS_OF(Left, T, 6); \
  prefix ANYOP_PACK_ROWS_OF(Left, T, 7); \
  prefix ANYOP_PACK_ROWS_OF(Left, T, 8)
#if defined(__AVX512BF16__)
ANYOP_PACK_ROWS(extern, BF16, BF16);
#else
ANYOP_PACK_ROWS(extern, float, float);
ANYOP_PACK_ROWS(extern, float, F16);
ANYOP_PACK_ROWS(extern, float, BF16);
#endif

// A piece of work is one panel by one group of row blocks; panels of a group are neighbours.
template <TileMath M, PanelProduct P>
struct PackedProduct {
  static_assert(std::same_as<typename M::Sum, typename P::Sum>);
  using Math = M;
  using Left = typename M::Left;
  using Weight = typename M::Weight;

  const P& p;
  Left* left;          // [blocks][k2][block][2], of AMX [blocks][k/32][block][32]; the last block
                       // narrower
  std::int64_t first;  // the first of the packed rows
  std::int64_t rows;   // how many
  std::int64_t block;  // rows of a block, at most M::kRows
  std::int64_t group;  // rows of a group, a multiple of block

  std::int64_t groups() const { return (rows + group - 1) / group; }
  Left* Row(std::int64_t row) const { return left + row * LeftSteps<M>(p.steps()) * 2; }

  // Calls pack(i, end), on several threads where that pays, for packed rows [i, end): whole blocks.
  template <class F>
  void Pack(const Context& ctx, F&& pack) const {
    const std::int64_t blocks = (rows + block - 1) / block;
    const std::int64_t grain = 20000 / (block * p.k + 1) + 1;
    ctx.ParallelFor(blocks, grain,
                    [&](std::int64_t b, std::int64_t e) { pack(b * block, Min(e * block, rows)); });
  }
  // Calls f(i, count) for each block of packed rows [i, end), count a constant.
  template <class F>
  [[gnu::always_inline]] void ForBlocksOf(std::int64_t i, std::int64_t end, F&& f) const {
    for (; i < end; i += block) {
      VisitRows<M::kRows>(Min(block, end - i), [&](auto count) { f(i, count); });
    }
  }
  // Packs p.k elements of packed rows [begin, end), whole blocks; row(r) points to those of row r,
  // pack(x, k, out) packs a block.
  template <class F, class Pack>
  void PackBlocksOf(std::int64_t begin, std::int64_t end, F&& row, Pack&& pack) const {
    if constexpr (kIsAmx<M>) {
      for (std::int64_t i = begin; i < end; i += block) {
        PackAmxRows(
            Min(block, end - i), p.k, [&](std::int64_t r) { return row(i + r); }, Row(i));
      }
    } else {
      ForBlocksOf(begin, end, [&](std::int64_t i, auto count) {
        using T = std::remove_cvref_t<decltype(*row(i))>;
        const T* x[count.value];
        for (int r = 0; r < count.value; ++r) x[r] = row(i + r);
        pack(x, p.k, Row(i));
      });
    }
  }
  // Packs rows of x, elements [l, l + p.k); row(r) points to the first element of row r.
  template <class F>
  void PackRowsOf(const Context& ctx, std::int64_t l, F&& row) const {
    Pack(ctx, [&](std::int64_t begin, std::int64_t end) {
      PackBlocksOf(
          begin, end, [&](std::int64_t r) { return row(first + r) + l; },
          [](const auto& x, std::int64_t k, Left* out) { PackRows(x, k, out); });
    });
  }

  // Panels [begin, end) by the only row block: weights are read once, from wherever they are.
  void Stream(const Weight* weight, std::int64_t begin, std::int64_t end) const {
    const std::int64_t stride = p.steps() * kStepWeights;
    const int wide = PanelsAtOnce<M>(int(rows));
    Tiles<M> tiles;
    alignas(64) typename M::Sum sums[Tiles<M>::kMostSums];
    for (std::int64_t panel = begin; panel < end;) {
      const int count = panel + wide <= end ? wide : 1;
      tiles.Stream(rows, count == wide, left, weight + panel * stride, p.steps(), sums);
      for (int i = 0; i < count; ++i) {
        p.StorePanel(sums + i * rows * kPanel, first, rows, panel + i);
      }
      panel += count;
    }
  }

  // One panel, whose weights are at `weight`, by the row blocks of group g. `next`: as many bytes
  // as a panel has, wanted soon, or null. store(sums [rows][32], i, rows) takes the sums of the
  // packed rows from i on.
  template <class F>
  void Multiply(const Weight* weight, const Weight* next, std::int64_t g, F&& store) const {
    const std::int64_t begin = g * group, end = Min(rows, begin + group);
    // The blocks share the prefetch in whole lines for each step of k: all, a half, a quarter.
    const std::int64_t blocks = (end - begin + block - 1) / block;
    std::int64_t step = kStepBytesOf<M>;
    for (std::int64_t share = 2; share <= blocks && step > 64; share *= 2) step /= 2;
    if (!next) step = 0;
    const char* ahead = reinterpret_cast<const char*>(next ? next : weight);
    const char* ahead_end = ahead + p.steps() * kStepBytesOf<M>;
    Tiles<M> tiles;
    alignas(64) typename M::Sum sums[M::kRows * kPanel];
    for (std::int64_t i = begin; i < end; i += block) {
      const std::int64_t r = Min(block, end - i);
      tiles.Multiply(r, Row(i), weight, p.steps(), ahead, step, sums);
      store(sums, i, r);
      ahead += p.steps() * step;
      if (ahead >= ahead_end) step = 0, ahead = reinterpret_cast<const char*>(weight);
    }
  }
  // The same, stored to y.
  void MultiplyAndStore(const Weight* weight, const Weight* next, std::int64_t panel,
                        std::int64_t g) const {
    const auto store = [&](const typename M::Sum* sums, std::int64_t i, std::int64_t count) {
      p.StorePanel(sums, first + i, count, panel);
    };
    Multiply(weight, next, g, store);
  }

  static std::int64_t Min(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
};

// Rows of a group: what fits in cache, but no fewer than 64 (each group reads all weights), unless
// that leaves too few pieces for the threads.
template <class M, class P>
inline std::int64_t GroupRows(const Context& ctx, const P& p, std::int64_t rows,
                              std::int64_t block) {
  const std::int64_t row_bytes = p.steps() * 2 * std::int64_t(sizeof(typename M::Left));
  std::int64_t group = kGroupBytes<M> / (row_bytes + 1);
  if (group < 64) group = 64;
  if (group > rows) group = rows;
  const std::int64_t wanted = 6 * std::int64_t(ctx.threads);
  while (group > block && ctx.threads > 1 && (rows + group - 1) / group * p.panels() < wanted) {
    group /= 2;
  }
  return (group + block - 1) / block * block;
}

// The product of the rows from `first` on, at most kPackedRows, to be packed to `left`.
template <class M, class P>
inline PackedProduct<M, P> PartOf(const Context& ctx, const P& p, typename M::Left* left,
                                  std::int64_t first) {
  const std::int64_t rows = p.rows - first < kPackedRows ? p.rows - first : kPackedRows;
  const std::int64_t blocks = (rows + M::kRows - 1) / M::kRows;
  std::int64_t block = (rows + blocks - 1) / blocks;
  if (kIsAmx<M> && blocks > 1) block = M::kRows;  // whole tiles
  return {p, left, first, rows, block, GroupRows<M>(ctx, p, rows, block)};
}

// Calls f(PackedProduct) for each run of at most kPackedRows rows of x, packed to `left`.
template <class M, RowsProduct P, class F>
inline void ForPackedRows(const Context& ctx, const P& p, typename M::Left* left, F&& f) {
  for (std::int64_t first = 0; first < p.rows; first += kPackedRows) {
    const PackedProduct<M, P> part = PartOf<M>(ctx, p, left, first);
    p.PackRows(ctx, part);
    f(part);
  }
}

// weight [panels][k2][32][2]; left: that of a PackedWorkspace.
template <class M, RowsProduct P>
inline void MultiplyPacked(const Context& ctx, const P& p, typename M::Left* left,
                           const typename M::Weight* weight) {
  const std::int64_t stride = p.steps() * kStepWeights;
  ForPackedRows<M>(ctx, p, left, [&](const auto& part) {
    if (part.rows <= M::kRows) {
      return ctx.ParallelFor(p.panels(), PanelGrain<typename M::Weight>(part.rows, p.k),
                             [&](std::int64_t b, std::int64_t e) { part.Stream(weight, b, e); });
    }
    ctx.ParallelFor(part.groups() * p.panels(), PanelGrain<typename M::Weight>(part.group, p.k),
                    [&](std::int64_t b, std::int64_t e) {
                      for (std::int64_t i = b; i < e; ++i) {
                        const std::int64_t panel = i % p.panels();
                        const auto* w = weight + panel * stride;
                        part.MultiplyAndStore(w, w + stride, panel, i / p.panels());
                      }
                    });
  });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
