// SPDX-License-Identifier: Apache-2.0
// y = activation(x weight^T + bias) with panels of packed weights: x is packed too, then tiles.
#pragma once
#include <cstdint>
#include <cstring>

#include "ops/common/gemm/amx.h"
#include "ops/common/gemm/buffers.h"
#include "ops/common/gemm/call.h"
#include "ops/common/gemm/group_cursor.h"
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
// Elements of so many packed rows. AMX reads whole tiles, so that a tile more must be there behind
// the last rows.
template <class M, class N>
constexpr N LeftElements(const N& rows, const N& steps) {
  const N elements = rows * LeftSteps<M>(steps) * N(2);
  if constexpr (kIsAmx<M>) return elements + N(2 * kAmxSteps * kAmxRows);
  return elements;
}

// Rows of x that are packed at a time; bounds the workspace.
inline constexpr std::int64_t kPackedRows = 512;

// Packed rows that stay in the second level of cache while all panels pass; where there are tiles,
// that level has 2 MB.
template <class M>
inline constexpr std::int64_t kGroupBytes = kIsAmx<M> ? 1 << 20 : 256 << 10;
// Steps of a chunk: its weights and a block of rows fit the first level of cache, which has 48 KB
// where there are tiles.
template <class M>
inline constexpr std::int64_t kChunkSteps = (kIsAmx<M> ? 36 << 10 : 20 << 10) / kStepBytesOf<M>;
static_assert(kChunkSteps<PairMath<float>> % kAmxSteps == 0);
// Where rows are many and long, some panels take turns in each chunk, and it is their partial sums
// that stay in the second level: weights are read once, and the rows once for so many panels.
template <class M>
inline constexpr std::int64_t kPanelsInTurns = (kIsAmx<M> ? 1 << 20 : 256 << 10) /
                                               (4 * kPartialSums<M> * kPackedRows);
// Rows of a group where sums of one panel wait on a stack.
template <class M>
inline constexpr std::int64_t kChunkedRows = (32 << 10) / (4 * kPartialSums<M>);

// packs: whether a weight that is not packed is, on the way.
template <class M, class N>
struct PackedWorkspace : Workspace<N> {
  N partial_bytes, thread_bytes;
  Part<typename M::Left, N> left;  // [rows][LeftSteps][2]
  Part<char, N> memory;            // [threads] partial sums if there are several chunks: [panels]
                                   // [blocks][kRows][kPartialSums]; if it packs, a chunk:
                                   // [steps][32][2]
  Part<unsigned char, N> taken;    // [threads]
  constexpr PackedWorkspace(N threads, N rows, N steps, N panels, bool packs)
      : partial_bytes(Min(N(1), CeilDiv(Max(steps, N(1)), N(kChunkSteps<M>)) - N(1)) *
                      CeilDiv(Min(rows, N(kPackedRows)), N(M::kRows)) *
                      Min(panels, N(kPanelsInTurns<M>)) *
                      N(4 * std::int64_t{kPartialSums<M>} * M::kRows)),
        thread_bytes(partial_bytes +
                     N(packs ? 1 : 0) * Min(steps, N(kChunkSteps<M>)) * N(kStepBytesOf<M>)),
        left(this->template Add<typename M::Left>(
            LeftElements<M>(Min(rows, N(kPackedRows)), steps))),
        memory(this->template Add<char>(threads * thread_bytes)),
        taken(this->template Add<unsigned char>(threads)) {}
};

// Packs k elements of kR rows: [k2][kR][2], zero where k is odd.
template <class Left, class T, int kR>
[[gnu::noinline]] void PackRows(const T* const (&x)[kR], std::int64_t k, Left* out) {
  std::int64_t l = 0;
  // Pairs, in registers where possible: one element after the other, packing would take as long as
  // the product with a weight of 32 rows.
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

// A piece of work is some panels, mostly one, by one group of row blocks; panels of a group are
// neighbours.
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
    const std::int64_t grain = 20000 / (block * p.k + 1) + 1;  // 2 us, 10 elements a nanosecond
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

  // Panels [panel, end_panel) by the row blocks of group g, chunk by chunk. partial:
  // [panels][blocks][block][kPartialSums], where there are several chunks. weights(panel, l, steps)
  // gives the chunk from step l on; ahead(panel, l): as many bytes, wanted soon, or null.
  // store(sums [rows][32], i, rows, panel) takes the sums of the packed rows from i on.
  template <class Weights, class Ahead, class F>
  void MultiplyPanels(std::int64_t panel, std::int64_t end_panel, std::int64_t g,
                      typename M::Sum* partial, Weights&& weights, Ahead&& ahead_of,
                      F&& store) const {
    const std::int64_t begin = g * group, end = Min(rows, begin + group), steps = p.steps();
    GroupCursor<M> at((end - begin + block - 1) / block, block, partial);
    Tiles<M> tiles;
    alignas(64) typename M::Sum sums[M::kRows * kPanel];
    for (std::int64_t l = 0; l == 0 || l < steps; l += kChunkSteps<M>) {
      const std::int64_t count = Min(kChunkSteps<M>, steps - l);
      const bool is_last = l + count == steps;
      at.StartChunk(l == 0, is_last);
      for (std::int64_t i_panel = panel; i_panel < end_panel; ++i_panel) {
        const Weight* w = weights(i_panel, l, count);
        at.StartPanel(w,
                      i_panel + 1 < end_panel ? ahead_of(i_panel + 1, l)
                      : is_last               ? ahead_of(end_panel, 0)
                                              : ahead_of(panel, l + count),
                      count);
        for (std::int64_t i = begin; i < end; i += block, at.NextBlock()) {
          const std::int64_t r = Min(block, end - i);
          tiles.Multiply(r, Row(i) + l * r * 2, w, count, at.ahead(), at.step(), at.sums(), sums);
          if (is_last) store(sums, i, r, i_panel);
        }
      }
    }
  }
  // One panel, whose weights are at `weight`. `next`: as many bytes as a chunk has, wanted soon, or
  // null.
  template <class F>
  void Multiply(const Weight* weight, const Weight* next, std::int64_t g, F&& store) const {
    alignas(64) typename M::Sum partial[kChunkedRows<M> * kPartialSums<M>];
    const auto chunk = [&](std::int64_t panel, std::int64_t l) {
      return panel == 0 ? weight + l * kStepWeights : next;
    };
    MultiplyPanels(
        0, 1, g, partial, [&](std::int64_t, std::int64_t l, std::int64_t) { return chunk(0, l); },
        chunk,
        [&](typename M::Sum* sums, std::int64_t i, std::int64_t count, std::int64_t) {
          store(sums, i, count);
        });
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

// Pieces of work that keep all threads busy to the end. Threads claim them, so that several for
// each even out noise.
inline std::int64_t WantedPieces(const Context& ctx) {
  return ctx.threads > 1 ? 6 * std::int64_t(ctx.threads) : 1;
}

// Rows of a group: as many as fit in cache, but no fewer than 64 (each group reads all weights), or
// kChunkedRows where panels take turns, unless that leaves too few pieces for the threads.
template <class M, class P>
inline std::int64_t GroupRows(const Context& ctx, const P& p, std::int64_t rows,
                              std::int64_t block) {
  const std::int64_t row_bytes = p.steps() * 2 * std::int64_t(sizeof(typename M::Left));
  std::int64_t group = kGroupBytes<M> / (row_bytes + 1);
  if (group < 64) group = 64;
  if (group > rows) group = rows;
  const std::int64_t wanted = WantedPieces(ctx);
  while (group > block && (rows + group - 1) / group * p.panels() < wanted) group /= 2;
  group = (group + block - 1) / block * block;
  const std::int64_t most = kChunkedRows<M> / block * block;
  return p.steps() > kChunkSteps<M> && group > most ? most : group;
}

// The product of the rows from `first` on, at most kPackedRows, to be packed to `left`.
template <class M, class P>
inline PackedProduct<M, P> PartOf(const Context& ctx, const P& p, typename M::Left* left,
                                  std::int64_t first) {
  const std::int64_t rows = p.rows - first < kPackedRows ? p.rows - first : kPackedRows;
  const std::int64_t blocks = (rows + M::kRows - 1) / M::kRows;
  std::int64_t block = (rows + blocks - 1) / blocks;
  if (kIsAmx<M> && blocks > 1) block = M::kRows;  // whole tiles, not blocks of equal height
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

// A run of at most kPackedRows rows. weights(panel, l, steps, chunk) gives the weights of a chunk,
// and may write them to `chunk`; ahead as in MultiplyPanels.
template <class M, class P, class Weights, class Ahead>
inline void MultiplyRun(const Context& ctx, PackedProduct<M, P> part, const Placed& placed,
                        const PackedWorkspace<M, std::int64_t>& parts, Weights&& weights,
                        Ahead&& ahead) {
  using Sum = typename M::Sum;
  using Weight = typename M::Weight;
  const P& p = part.p;
  const std::int64_t row_bytes = p.steps() * 2 * std::int64_t(sizeof(typename M::Left));
  const bool is_chunked = p.steps() > kChunkSteps<M>;
  const bool takes_turns =
      is_chunked && Min(part.rows, kChunkedRows<M>) * row_bytes > kGroupBytes<M>;
  std::int64_t wide = takes_turns ? kPanelsInTurns<M> : 1;
  part.group = part.rows;
  if (is_chunked && !takes_turns)
    part.group = Min(part.rows, kChunkedRows<M> / part.block * part.block);
  const auto runs = [&] { return CeilDiv(p.panels(), wide); };
  while (wide > 1 && runs() < WantedPieces(ctx)) wide /= 2;
  while (part.group > part.block && part.groups() * runs() < WantedPieces(ctx)) {
    part.group = CeilDiv(CeilDiv(part.group, part.block), 2) * part.block;
  }
  const ThreadBuffers<char> buffers(placed[parts.memory], placed[parts.taken], parts.thread_bytes,
                                    parts.taken.count);
  const std::int64_t grain = PanelGrain<Weight>(part.group * wide, p.k);
  ctx.ParallelFor(part.groups() * runs(), grain, [&](std::int64_t b, std::int64_t e) {
    char* memory = buffers.Take();
    auto* chunk = reinterpret_cast<Weight*>(memory + parts.partial_bytes);
    for (std::int64_t i = b; i < e; ++i) {
      const std::int64_t from = i % runs() * wide, to = Min(p.panels(), from + wide);
      part.MultiplyPanels(
          from, to, i / runs(), reinterpret_cast<Sum*>(memory),
          [&](std::int64_t panel, std::int64_t l, std::int64_t steps) {
            return weights(panel, l, steps, chunk);
          },
          ahead,
          [&](const Sum* sums, std::int64_t row, std::int64_t rows, std::int64_t panel) {
            p.StorePanel(sums, part.first + row, rows, panel);
          });
    }
    buffers.Return(memory);
  });
}

// weight [panels][k2][32][2].
template <class M, RowsProduct P>
inline void MultiplyPacked(const Context& ctx, const P& p, const Placed& placed,
                           const PackedWorkspace<M, std::int64_t>& parts,
                           const typename M::Weight* weight) {
  using Weight = typename M::Weight;
  const std::int64_t stride = p.steps() * kStepWeights;
  const auto at = [&](std::int64_t panel, std::int64_t l) {
    return weight + panel * stride + l * kStepWeights;
  };
  ForPackedRows<M>(ctx, p, placed[parts.left], [&](const auto& part) {
    if (part.rows <= M::kRows) {
      return ctx.ParallelFor(p.panels(), PanelGrain<Weight>(part.rows, p.k),
                             [&](std::int64_t b, std::int64_t e) { part.Stream(weight, b, e); });
    }
    MultiplyRun(
        ctx, part, placed, parts,
        [&](std::int64_t panel, std::int64_t l, std::int64_t, Weight*) { return at(panel, l); },
        at);
  });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
