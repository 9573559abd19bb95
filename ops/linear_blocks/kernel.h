// SPDX-License-Identifier: Apache-2.0
// The kernels of linear_blocks and linear_blocks_packed.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "anyop/op.h"
#include "ops/common/gemm/pack.h"
#include "ops/linear_blocks/exact.h"
#include "ops/linear_blocks/pack.h"
#include "ops/linear_blocks/strips.h"
#include "ops/linear_blocks/tile.h"

// Workspace: quantized rows of x; for rows of blocks, a packed group for each thread too, and what
// the product with decoded blocks takes.
#define ANYOP_BLOCKS_PACKED_WORKSPACE "min(rows(x), 128) * g * 48"
#define ANYOP_BLOCKS_QUANTIZED_WORKSPACE \
  ANYOP_BLOCKS_PACKED_WORKSPACE " + threads * (64*(g*544/64 + 1) + 1)"
#define ANYOP_BLOCKS_WORKSPACE            \
  "max(" ANYOP_BLOCKS_QUANTIZED_WORKSPACE \
  ", " ANYOP_CHUNKS_WORKSPACE("rows(x)", "max(32*g, 1)", "n", "4", "4") ")"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Rows of x that are quantized at a time: they stay in the second level of cache.
inline constexpr std::int64_t kQuantizedRows = 128;

struct BlocksProduct {
  const Tensor& x;     // [rows, 32 blocks]
  const Tensor* bias;  // [n]
  const Tensor& y;     // [rows, n]
  std::int64_t rows, blocks, n;

  std::int64_t groups() const { return (n + kGroup - 1) / kGroup; }
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
  const std::int64_t column = group * kGroup,
                     columns = std::min<std::int64_t>(p.n - column, kGroup);
  const T* bias = p.bias ? p.bias->base<const T>() + column : nullptr;
  for (std::int64_t r = 0; r < rows; ++r) {
    StoreRow<Activation::kNone>(sums + r * kGroup, bias,
                                p.y.base<T>() + p.y.row_offset(first + r) + column, columns);
  }
}

template <class Fn>
inline void VisitFloat(DType type, Fn&& f) {
  if (type == DType::kF32) return f(float{});
  if (type == DType::kF16) return f(F16{});
  f(BF16{});
}

// take(group, buffer) returns the packed group; ahead as in MultiplyGroup.
template <class F, class Take>
inline void MultiplyQuantized(const Context& ctx, const BlocksProduct& p, std::int64_t ahead,
                              Take&& take) {
  auto* x = ctx.Workspace<QuantizedBlock>();
  const double group_bytes = double(p.blocks) * kGroupBlockBytes<F>;
  for (std::int64_t first = 0; first < p.rows; first += kQuantizedRows) {
    const std::int64_t rows = std::min(kQuantizedRows, p.rows - first);
    VisitFloat(p.x.type(),
               [&](auto zero) { QuantizeRows<decltype(zero)>(ctx, p, first, rows, x); });
    const double ns = group_bytes / 25 + double(p.blocks * kBlock * kGroup * rows) / 300 + 20;
    ctx.ParallelFor(p.groups(), std::int64_t(2000 / ns) + 1, [&](std::int64_t b, std::int64_t e) {
      take(b, e, [&](std::int64_t group, const char* w) {
        alignas(64) float sums[kTileRows * kGroup];
        ForTiles(0, rows, [&](std::int64_t i, auto count) {
          MultiplyGroup<F, count.value>(w, x + i * p.blocks, p.blocks, ahead, sums);
          VisitFloat(p.x.type(), [&](auto zero) {
            StoreGroup<decltype(zero)>(p, sums, first + i, count.value, group);
          });
        });
      });
    });
  }
}

template <class F>
inline void MultiplyPackedBlocks(const Context& ctx, const BlocksProduct& p, const char* packed) {
  const std::int64_t bytes = p.blocks * kGroupBlockBytes<F>;
  MultiplyQuantized<F>(ctx, p, 4096, [&](std::int64_t b, std::int64_t e, auto&& multiply) {
    for (std::int64_t i = b; i < e; ++i) multiply(i, packed + i * bytes);
  });
}

// One row of x by 16 rows or more. The last group begins earlier, so that it ends where the weight
// does.
template <class F>
inline void MultiplyStripRows(const Context& ctx, const BlocksProduct& p, const char* weight) {
  auto* x = ctx.Workspace<QuantizedBlock>();
  VisitFloat(p.x.type(), [&](auto zero) { QuantizeRows<decltype(zero)>(ctx, p, 0, 1, x); });
  auto* strips = ctx.Workspace<StripOfX>(std::size_t(p.blocks * 48 + 63) / 64 * 64);
  ArrangeStrips<F>(x, p.blocks, strips);
  const std::int64_t bytes = p.blocks * kGroupBlockBytes<F>;
  const std::int64_t grain = std::int64_t(2000 / (double(bytes) / 25 + 20)) + 1;
  ctx.ParallelFor(p.groups(), grain, [&](std::int64_t b, std::int64_t e) {
    alignas(64) float sums[kGroup];
    for (std::int64_t i = b; i < e; ++i) {
      const std::int64_t row = std::min(i * kGroup, p.n - kGroup);
      const char* w = weight + row * p.blocks * F::kBytes;
      MultiplyStrips<F>(w, p.blocks, strips, w + bytes, sums);
      VisitFloat(p.x.type(), [&](auto zero) {
        StoreGroup<decltype(zero)>(p, sums + (i * kGroup - row), 0, 1, i);
      });
    }
  });
}

// The 16 rows of a group follow each other in memory, and so do the groups: while one is packed the
// next comes into cache.
template <class F>
inline void MultiplyBlockRows(const Context& ctx, const BlocksProduct& p, const char* weight) {
  if (p.rows == 1 && p.n >= kGroup && p.blocks >= kParts) {
    return MultiplyStripRows<F>(ctx, p, weight);
  }
  const std::int64_t bytes = p.blocks * kGroupBlockBytes<F>;
  const std::size_t quantized = std::size_t(std::min(p.rows, kQuantizedRows) * p.blocks) * 48;
  const PanelBuffers<char> buffers(ctx.Workspace<char>(quantized), bytes / 64 + 1,
                                   ctx.threads > 1 ? ctx.threads : 1);
  MultiplyQuantized<F>(ctx, p, 0, [&](std::int64_t b, std::int64_t e, auto&& multiply) {
    char* buffer = buffers.Take();
    for (std::int64_t i = b; i < e; ++i) {
      const char* w = weight + i * bytes;
      PackGroup<F>(w, std::min<std::int64_t>(p.n - i * kGroup, kGroup), p.blocks, p.blocks,
                   w + bytes, buffer);
      multiply(i, buffer);
    }
    buffers.Return(buffer);
  });
}

inline BlocksProduct ProductOf(const Tensor& x, const Tensor* bias, const Tensor& y,
                               std::int64_t n) {
  return {x, bias, y, x.rows(), x.row_size() / kBlock, n};
}

inline void RunLinearBlocksQuantized(const Context& ctx, const Tensor& x, const Tensor& weight,
                                     const Tensor* bias, std::string_view, std::string_view format,
                                     const Tensor& y) {
  const BlocksProduct p = ProductOf(x, bias, y, weight.dim(0));
  if (p.rows == 0 || p.n == 0) return;
  VisitFormat(format,
              [&](auto f) { MultiplyBlockRows<decltype(f)>(ctx, p, weight.base<const char>()); });
}

inline void RunLinearBlocks(const Context& ctx, const Tensor& x, const Tensor& weight,
                            const Tensor* bias, std::string_view input, std::string_view format,
                            const Tensor& y) {
  if (input == "q8") return RunLinearBlocksQuantized(ctx, x, weight, bias, input, format, y);
  const Product p{x, bias, y, Activation::kNone, x.rows(), x.row_size(), weight.dim(0)};
  if (p.rows == 0 || p.n == 0) return;
  const RightBlocks right{weight.base<const std::uint8_t>(), p.k / kBlock, format};
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    MultiplyChunks<PairMath<float>, T>(ctx, p, LeftRows<T>{Rows<T>(x)}, right);
  });
}

inline void RunLinearBlocksPacked(const Context& ctx, const Tensor& x, const Tensor& packed,
                                  std::int64_t features, const Tensor* bias,
                                  std::string_view format, const Tensor& y) {
  const BlocksProduct p = ProductOf(x, bias, y, features);
  if (p.rows == 0 || p.n == 0) return;
  VisitFormat(format, [&](auto f) {
    MultiplyPackedBlocks<decltype(f)>(ctx, p, packed.base<const char>());
  });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
