// SPDX-License-Identifier: Apache-2.0
// The kernels of linear_blocks and linear_blocks_packed.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

#include "anyop/op.h"
#include "ops/common/elementwise/elementwise.h"
#include "ops/common/gemm/pack.h"
#include "ops/linear_blocks/exact.h"
#include "ops/linear_blocks/pack.h"
#include "ops/linear_blocks/strips.h"
#include "ops/linear_blocks/tile.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Rows of x that are quantized at a time: they stay in the second level of cache.
inline constexpr std::int64_t kQuantizedRows = 128;

// blocks: of a row.
template <class N>
struct QuantizedWorkspace : Workspace<N> {
  Part<QuantizedBlock, N> x;  // [rows][blocks]
  constexpr QuantizedWorkspace(N rows, N blocks)
      : x(this->template Add<QuantizedBlock>(Min(rows, N(kQuantizedRows)) * blocks)) {}
};
// Where the weight is rows of blocks: a packed group for each thread.
template <class N>
struct BlockRowsWorkspace : QuantizedWorkspace<N> {
  N group_bytes;
  Part<char, N> groups;          // [threads][group_bytes]
  Part<unsigned char, N> taken;  // [threads]
  constexpr BlockRowsWorkspace(N threads, N rows, N blocks)
      : QuantizedWorkspace<N>(rows, blocks),
        group_bytes(LineBytes(blocks, kMostGroupBlockBytes)),
        groups(this->template Add<char>(threads * group_bytes)),
        taken(this->template Add<unsigned char>(threads)) {}
};
// Of one row of x instead: its strips.
template <class N>
struct StripsWorkspace : QuantizedWorkspace<N> {
  Part<StripOfX, N> strips;
  constexpr explicit StripsWorkspace(N blocks)
      : QuantizedWorkspace<N>(N(1), blocks),
        strips(this->template Add<StripOfX>(StripsOf(blocks))) {}
};

// Elements of a row of x: its forms name them by blocks of 32 or of 256.
constexpr SizeText ElementsText() {
  const SizeText size = "size(x)", rows = "rows(x)";
  return size / Max(rows, SizeText(1));
}
constexpr SizeText PackedBlocksBytes() {
  return QuantizedWorkspace<SizeText>("rows(x)", ElementsText() / SizeText(kBlockElements)).bytes();
}
constexpr SizeText QuantizedBytes() {
  const SizeText blocks = ElementsText() / SizeText(kBlockElements);
  return Max(BlockRowsWorkspace<SizeText>("threads", "rows(x)", blocks).bytes(),
             Min(SizeText(1), "rows(x)") * StripsWorkspace<SizeText>(blocks).bytes());
}
// Of products with decoded blocks too.
constexpr SizeText BlocksBytes() {
  const SizeText k = ElementsText();
  const SizeText exact =
      ChunksWorkspace<PairMath<float>, SizeText>("threads", "rows(x)", k, "n").bytes();
  return Max(QuantizedBytes(), exact);
}

// What differs by format: everything else is compiled once. Counts of blocks are of 32 elements.
struct BlockFunctions {
  std::int64_t bytes, elements;  // of a block
  // [i]: 2^i rows of x. As MultiplyGroup.
  void (*multiply[4])(const char* w, const QuantizedBlock* x, std::int64_t blocks,
                      std::int64_t ahead, float* sums);
  void (*pack)(const char* weight, std::int64_t rows, std::int64_t row_blocks, std::int64_t blocks,
               const char* ahead, char* out);  // of blocks as they are
  // Of one row of x and rows as they lie; null: they are packed for it too.
  void (*arrange)(const QuantizedBlock* x, std::int64_t blocks, StripOfX* strips);
  void (*multiply_strips)(const char* w, std::int64_t blocks, const StripOfX* x, const char* ahead,
                          float* sums);

  // Bytes of a row, or of a group of rows.
  std::int64_t row_bytes(std::int64_t blocks) const {
    return blocks * kBlockElements / elements * bytes;
  }
  std::int64_t group_bytes(std::int64_t blocks) const { return kGroupRows * row_bytes(blocks); }
};

template <class F>
constexpr BlockFunctions FunctionsOf() {
  BlockFunctions f{};
  f.bytes = F::kBytes;
  f.elements = kElementsOf<F>;
  f.pack = &PackGroup<F>;
  f.multiply[0] = &MultiplyGroup<F, 1>;
  f.multiply[1] = &MultiplyGroup<F, 2>;
  if constexpr (kTileRows > 2) f.multiply[2] = &MultiplyGroup<F, 4>;
  if constexpr (kTileRows > 4) f.multiply[3] = &MultiplyGroup<F, 8>;
  if constexpr (F::kBits % 4 == 0 && !kIsSuperblock<F>) {
    f.arrange = &ArrangeStrips<F>;
    f.multiply_strips = &MultiplyStrips<F>;
  }
  return f;
}
inline BlockFunctions FunctionsOf(std::string_view format) {
  BlockFunctions functions{};
  VisitFormat(format, [&](auto f) { functions = FunctionsOf<decltype(f)>(); });
  return functions;
}

struct BlocksProduct {
  const Tensor& x;     // [rows, 32 blocks]
  const Tensor* bias;  // [n]
  const Tensor& y;     // [rows, n]
  std::int64_t rows, blocks, n;
  BlockFunctions format;

  std::int64_t groups() const { return (n + kGroupRows - 1) / kGroupRows; }
};

template <class T>
inline void QuantizeRows(const Context& ctx, const BlocksProduct& p, std::int64_t first,
                         std::int64_t rows, QuantizedBlock* out) {
  const std::int64_t grain = 2000 / (p.blocks * 12 + 10) + 1;
  ctx.ParallelFor((rows + kTileRows - 1) / kTileRows, grain, [&](std::int64_t b, std::int64_t e) {
    ForTiles(b * kTileRows, std::min(e * kTileRows, rows), [&](std::int64_t i, auto count) {
      for (std::int64_t r = 0; r < count.value; ++r) {
        const T* x = p.x.base<const T>() + p.x.row_offset(first + i + r);
        QuantizeRow(x, p.blocks, out + i * p.blocks + r, count.value);
      }
    });
  });
}

template <class T>
inline void StoreGroup(const BlocksProduct& p, const float* sums, std::int64_t first,
                       std::int64_t rows, std::int64_t group) {
  const std::int64_t column = group * kGroupRows,
                     columns = std::min<std::int64_t>(p.n - column, kGroupRows);
  const T* bias = p.bias ? p.bias->base<const T>() + column : nullptr;
  for (std::int64_t r = 0; r < rows; ++r) {
    StoreRow<Activation::kNone>(sums + r * kGroupRows, bias,
                                p.y.base<T>() + p.y.row_offset(first + r) + column, columns);
  }
}

// take(b, e, multiply) calls multiply(group, packed group) for those of [b, e); ahead as in
// MultiplyGroup; x: that of a QuantizedWorkspace.
template <class Take>
inline void MultiplyQuantized(const Context& ctx, const BlocksProduct& p, QuantizedBlock* x,
                              std::int64_t ahead, Take&& take) {
  const auto group_bytes = double(p.format.group_bytes(p.blocks));
  for (std::int64_t first = 0; first < p.rows; first += kQuantizedRows) {
    const std::int64_t rows = std::min(kQuantizedRows, p.rows - first);
    VisitFloat(p.x.type(),
               [&](auto zero) { QuantizeRows<decltype(zero)>(ctx, p, first, rows, x); });
    const double ns =
        group_bytes / 25 + double(p.blocks * kBlockElements * kGroupRows * rows) / 300 + 20;
    ctx.ParallelFor(p.groups(), std::int64_t(2000 / ns) + 1, [&](std::int64_t b, std::int64_t e) {
      take(b, e, [&](std::int64_t group, const char* w) {
        alignas(64) float sums[kTileRows * kGroupRows];
        ForTiles(0, rows, [&](std::int64_t i, auto count) {
          constexpr int kTile = std::countr_zero(unsigned(count.value));
          p.format.multiply[kTile](w, x + i * p.blocks, p.blocks, ahead, sums);
          VisitFloat(p.x.type(), [&](auto zero) {
            StoreGroup<decltype(zero)>(p, sums, first + i, count.value, group);
          });
        });
      });
    });
  }
}

inline void MultiplyPackedBlocks(const Context& ctx, const BlocksProduct& p, const char* packed) {
  const std::int64_t bytes = p.format.group_bytes(p.blocks);
  const QuantizedWorkspace<std::int64_t> parts(p.rows, p.blocks);
  QuantizedBlock* x = Placed(ctx, parts)[parts.x];
  MultiplyQuantized(ctx, p, x, 4096, [&](std::int64_t b, std::int64_t e, auto&& multiply) {
    for (std::int64_t i = b; i < e; ++i) multiply(i, packed + i * bytes);
  });
}

// One row of x by 16 rows or more. The last group begins earlier, so that it ends where the weight
// does.
inline void MultiplyStripRows(const Context& ctx, const BlocksProduct& p, const char* weight) {
  const StripsWorkspace<std::int64_t> parts(p.blocks);
  const Placed placed(ctx, parts);
  QuantizedBlock* x = placed[parts.x];
  VisitFloat(p.x.type(), [&](auto zero) { QuantizeRows<decltype(zero)>(ctx, p, 0, 1, x); });
  StripOfX* strips = placed[parts.strips];
  p.format.arrange(x, p.blocks, strips);
  const std::int64_t bytes = p.format.group_bytes(p.blocks);
  const std::int64_t grain = std::int64_t(2000 / (double(bytes) / 25 + 20)) + 1;
  ctx.ParallelFor(p.groups(), grain, [&](std::int64_t b, std::int64_t e) {
    alignas(64) float sums[kGroupRows];
    for (std::int64_t i = b; i < e; ++i) {
      const std::int64_t row = std::min(i * kGroupRows, p.n - kGroupRows);
      const char* w = weight + row * p.format.row_bytes(p.blocks);
      p.format.multiply_strips(w, p.blocks, strips, w + bytes, sums);
      VisitFloat(p.x.type(), [&](auto zero) {
        StoreGroup<decltype(zero)>(p, sums + (i * kGroupRows - row), 0, 1, i);
      });
    }
  });
}

// The 16 rows of a group follow each other in memory, and so do the groups: while one is packed the
// next comes into cache.
inline void MultiplyBlockRows(const Context& ctx, const BlocksProduct& p, const char* weight) {
  if (p.format.multiply_strips && p.rows == 1 && p.n >= kGroupRows && p.blocks >= kParts) {
    return MultiplyStripRows(ctx, p, weight);
  }
  const std::int64_t bytes = p.format.group_bytes(p.blocks);
  const std::int64_t row_blocks = p.blocks * kBlockElements / p.format.elements;
  const BlockRowsWorkspace<std::int64_t> parts(ThreadsOf(ctx), p.rows, p.blocks);
  const Placed placed(ctx, parts);
  const ThreadBuffers<char> buffers(placed[parts.groups], placed[parts.taken], parts.group_bytes,
                                    parts.taken.count);
  MultiplyQuantized(ctx, p, placed[parts.x], 0,
                    [&](std::int64_t b, std::int64_t e, auto&& multiply) {
                      char* buffer = buffers.Take();
                      for (std::int64_t i = b; i < e; ++i) {
                        const char* w = weight + i * bytes;
                        const auto rows = std::min<std::int64_t>(p.n - i * kGroupRows, kGroupRows);
                        p.format.pack(w, rows, row_blocks, row_blocks, w + bytes, buffer);
                        multiply(i, buffer);
                      }
                      buffers.Return(buffer);
                    });
}

inline BlocksProduct BlocksProductOf(const Tensor& x, const Tensor* bias, const Tensor& y,
                                     std::int64_t n, std::string_view format) {
  return {x, bias, y, x.rows(), x.row_size() / kBlockElements, n, FunctionsOf(format)};
}

inline void RunLinearBlocksQuantized(const Context& ctx, const Tensor& x, const Tensor& weight,
                                     const Tensor* bias, std::string_view, std::string_view format,
                                     const Tensor& y) {
  const BlocksProduct p = BlocksProductOf(x, bias, y, weight.dim(0), format);
  if (p.rows != 0 && p.n != 0) MultiplyBlockRows(ctx, p, weight.base<const char>());
}

inline void RunLinearBlocks(const Context& ctx, const Tensor& x, const Tensor& weight,
                            const Tensor* bias, std::string_view input, std::string_view format,
                            const Tensor& y) {
  if (input == "q8") return RunLinearBlocksQuantized(ctx, x, weight, bias, input, format, y);
  const std::int64_t rows = x.rows(), k = x.row_size(), n = weight.dim(0);
  if (rows == 0 || n == 0) return;
  const RightBlocks right{weight.base<const std::uint8_t>(), k, format};
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const DenseProduct<T, NoRows> p{{bias, y, n, Activation::kNone}, {}, rows, k};
    MultiplyChunks<PairMath<float>>(ctx, p, LeftRows<T>{Rows<T>(x)}, right);
  });
}

inline void RunLinearBlocksPacked(const Context& ctx, const Tensor& x, const Tensor& packed,
                                  std::int64_t features, const Tensor* bias,
                                  std::string_view format, const Tensor& y) {
  const BlocksProduct p = BlocksProductOf(x, bias, y, features, format);
  if (p.rows != 0 && p.n != 0) MultiplyPackedBlocks(ctx, p, packed.base<const char>());
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
