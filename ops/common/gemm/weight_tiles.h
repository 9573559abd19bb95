// SPDX-License-Identifier: Apache-2.0
// y = activation(x weight^T + bias) with the weight as it is, [n, k], and tiles of AMX: only x is
// packed.
#pragma once
#if defined(__AMX_BF16__)
#include <cstdint>
#include <cstring>

#include "ops/common/gemm/packed.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Rows of x as WeightTiles take them, at most kPackedRows at a time.
template <class N>
struct ColumnsWorkspace : Workspace<N> {
  N block;                // elements of a block
  Part<BF16, N> columns;  // [blocks][block]
  constexpr ColumnsWorkspace(N rows, N k)
      : block(CeilDiv(k, N(2 * kAmxSteps)) * N(kAmxBlockStep)),
        columns(this->template Add<BF16>(CeilDiv(Min(rows, N(kPackedRows)), N(AmxMath::kRows)) *
                                         block)) {}
};

// The least and the most rows of x for which this is the fastest way. Fewer are bound by memory;
// for more, it pays to pack chunks of the weight, which then stay in the first level of cache.
inline constexpr std::int64_t kTiledRows = 4, kMostTiledRows = 160;

// Any number of rows of x, and 32 rows of the weight or more.
template <RowsProduct P>
inline void MultiplyByTiles(const Context& ctx, const P& p, const Tensor& weight) {
  constexpr std::int64_t kBlock = AmxMath::kRows;
  const ColumnsWorkspace<std::int64_t> parts(p.rows, p.k);
  BF16* columns = Placed(ctx, parts)[parts.columns];
  const std::int64_t stride = weight.stride(0), panels = p.panels();
  // Blocks that stay in the second level of cache while all panels pass.
  const std::int64_t group =
      Max(1, kGroupBytes<AmxMath> / (parts.block * std::int64_t(sizeof(BF16)) + 1));
  for (std::int64_t begin = 0; begin < p.rows; begin += kPackedRows) {
    const std::int64_t rows = Min(p.rows - begin, kPackedRows), blocks = CeilDiv(rows, kBlock);
    const auto rows_of = [&](std::int64_t b) { return Min(rows - b * kBlock, kBlock); };
    ctx.ParallelFor(blocks, 40000 / (kBlock * p.k + 1) + 1, [&](std::int64_t b, std::int64_t e) {
      for (; b < e; ++b) {
        const BF16* x[kBlock];
        for (std::int64_t r = 0; r < rows_of(b); ++r) x[r] = p.row(begin + b * kBlock + r);
        PackAmxColumns(rows_of(b), p.k, x, columns + b * parts.block);
      }
    });
    const auto multiply = [&](const WeightTiles& tiles, std::int64_t panel, std::int64_t first) {
      alignas(64) float sums[kBlock * kPanel];
      const std::int64_t column = panel * kPanel;
      const std::int64_t from = column + kPanel <= p.n ? column : p.n - kPanel;
      const BF16* w = weight.base<const BF16>() + from * stride;
      const std::int64_t skipped = column - from;  // columns of the panel before, computed twice
      for (std::int64_t b = first; b < Min(blocks, first + group); ++b) {
        const BF16* x = columns + b * parts.block;
        tiles.Multiply(rows_of(b), w, stride, p.k, x, b == first, sums);
        if (skipped) std::memmove(sums, sums + skipped, sizeof(sums) - std::size_t(4 * skipped));
        p.StorePanel(sums, begin + b * kBlock, rows_of(b), panel);
      }
    };
    const std::int64_t groups = CeilDiv(blocks, group);
    const std::int64_t grain = PanelGrain<BF16>(Min(rows, group * kBlock) / 8, p.k);
    ctx.ParallelFor(groups * panels, grain, [&](std::int64_t i, std::int64_t end) {
      const WeightTiles tiles;
      for (; i < end; ++i) multiply(tiles, i % panels, i / panels * group);
    });
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
#endif
