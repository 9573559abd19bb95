// SPDX-License-Identifier: Apache-2.0
// The kernels of linear_int8, linear_int8_quantized and linear_int8_packed, for one math template
// each (ops/common/gemm/int8.h).
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "anyop/op.h"
#include "ops/common/elementwise.h"
#include "ops/common/gemm/int8.h"
#include "ops/common/gemm/pack.h"
#include "ops/common/gemm/packed.h"
#include "ops/common/gemm/rows.h"
#include "ops/common/quantize_int8.h"

// Workspace: rows of x as bytes and packed (`left` bytes for a byte), the scale and the offset of
// each row; with rows of weights, a panel for each thread.
#define ANYOP_INT8_PACKED_WORKSPACE_OF(k4, left) \
  "192 + rows(x) * 8 + min(rows(x), 512) * (128 + " k4 " * 4 * (1 + " left "))"
#define ANYOP_INT8_PACKED_WORKSPACE(left) ANYOP_INT8_PACKED_WORKSPACE_OF("k4", left)
#define ANYOP_INT8_WORKSPACE(left)                       \
  ANYOP_INT8_PACKED_WORKSPACE_OF("ceil_div(k, 4)", left) \
  " + threads * (128 * ceil_div(k, 4) + 1)"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// y = f32(A) * weight_scale * x_scale + bias, A = bytes of x times bytes of weights: in this order
// x near the largest float does not overflow on the way.
struct BytesProduct : Product {
  const Tensor* given_scale;  // of x, where x is bytes already
  const float* weight_scale;  // [n]
  // For each row of x:
  float* scale;
  std::uint32_t* offset;  // what its sums are too large by
  std::int8_t* bytes;     // the bytes of at most kPackedRows rows, from a multiple of it on

  std::int64_t pairs() const { return (k + 3) / 4; }
  // Of a row of bytes; rows 4096 apart would share one set of the first level of cache.
  std::int64_t pitch() const { return (k + 63) / 64 * 64 + 64; }
  template <class T>
  const T* row(std::int64_t r) const {
    return reinterpret_cast<const T*>(bytes + r % kPackedRows * pitch());
  }
};

// As PackPanel of floats: out[z][j] = bytes 4 z ... 4 z + 3 of row j; zero where out of range.
inline void PackPanel(const std::int8_t* weight, std::int64_t stride, std::int64_t rows,
                      std::int64_t k, I8x2* out) {
  using Block = Square<std::int32_t>;
  constexpr std::int64_t kBlock = 4 * Block::kCount;  // bytes of a row
  char* to = reinterpret_cast<char*>(out);
  std::int64_t l = 0;
  for (; rows == kPanel && l + kBlock <= k; l += kBlock) {
#pragma GCC unroll 1
    for (std::int64_t j = 0; j < kPanel; j += Block::kCount) {
      Block::Transpose(reinterpret_cast<const char*>(weight + j * stride + l), stride,
                       to + l * kPanel + j * 4, 4 * kPanel);
    }
  }
  for (; l < k; l += 4) {
    std::memset(to + l * kPanel, 0, 4 * kPanel);
    const std::size_t count = std::size_t(std::min<std::int64_t>(4, k - l));
    for (std::int64_t j = 0; j < rows; ++j) {
      std::memcpy(to + l * kPanel + j * 4, weight + j * stride + l, count);
    }
  }
}

template <class T>
[[gnu::noinline]] inline void StorePanel(const BytesProduct& p, const float* sums,
                                         std::int64_t first, std::int64_t rows,
                                         std::int64_t panel) {
  const std::int64_t column = panel * kPanel;
  const std::int64_t columns = std::min<std::int64_t>(p.n - column, kPanel);
  const float* weight_scale = p.weight_scale + column;
  float bias[kPanel];
  if (p.bias) {
    VisitFloat(p.bias->type(), [&](auto zero) {
      ForLanes(columns, [&](std::int64_t j, auto count) [[gnu::always_inline]] {
        StoreN(bias + j, LoadN(p.bias->base<const decltype(zero)>() + column + j, count), count);
      });
    });
  }
  VisitFloat(p.y.type(), [&](auto zero) {
    for (std::int64_t r = 0; r < rows; ++r) {
      std::uint32_t bits[kPanel];
      float products[kPanel];
      std::memcpy(bits, sums + r * kPanel, sizeof(bits));
      const std::uint32_t offset = p.offset[first + r];
      for (int j = 0; j < kPanel; ++j) products[j] = float(std::int32_t(bits[j] - offset));
      const F32 scale = Set(p.scale[first + r]);
      auto* y = p.y.base<decltype(zero)>() + p.y.row_offset(first + r) + column;
      ForLanes(columns, [&](std::int64_t j, auto count) [[gnu::always_inline]] {
        F32 v = LoadN(products + j, count) * LoadN(weight_scale + j, count) * scale;
        if (p.bias) v += LoadN(bias + j, count);
        StoreN(y + j, v, count);
      });
    }
  });
}

// Bytes, scale and offset of one row.
template <class M>
inline void PrepareRow(const BytesProduct& p, std::int64_t r) {
  auto* q = const_cast<std::int8_t*>(p.row<std::int8_t>(r));
  if (p.given_scale) {
    std::memcpy(q, p.x.base<const std::int8_t>() + p.x.row_offset(r), std::size_t(p.k));
    p.scale[r] = p.given_scale->base<const float>()[p.given_scale->row_offset(r)];
  } else {
    VisitFloat(p.x.type(), [&](auto zero) {
      const auto* x = p.x.base<const decltype(zero)>() + p.x.row_offset(r);
      p.scale[r] = QuantizeSymmetric(x, p.k, q).scale;
    });
  }
  std::memset(q + p.k, 0, std::size_t(p.pairs() * 4 - p.k));
  std::int32_t sum = 0;
  if (M::kOffset) {
    for (std::int64_t l = 0; l < p.k; ++l) sum += q[l];
  }
  p.offset[r] = std::uint32_t(sum) * M::kOffset;
}

// As ForPackedRows of floats, which quantizes x on the way.
template <class M, class F>
inline void ForPackedRows(const Context& ctx, const BytesProduct& p, F&& f) {
  for (std::int64_t first = 0; first < p.rows; first += kPackedRows) {
    const PackedProduct<M, BytesProduct> part = PartOf<M>(ctx, p, first);
    part.Pack(ctx, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) PrepareRow<M>(p, first + i);
      part.ForBlocksOf(begin, end, [&](std::int64_t i, auto count) {
        const I8x2* x[count.value];
        for (int r = 0; r < count.value; ++r) x[r] = p.row<I8x2>(first + i + r);
        PackRows(x, 2 * p.pairs(), part.Row(i));
      });
    });
    f(part);
  }
}

// panel_bytes: of the panels that lie between the packed rows of x and the rest of the workspace.
template <class M>
inline BytesProduct BytesProductOf(const Context& ctx, const Tensor& x, const Tensor* x_scale,
                                   std::int64_t n, const Tensor& weight_scale, const Tensor* bias,
                                   const Tensor& y, std::int64_t panel_bytes) {
  BytesProduct p{{x, bias, y, Activation::kNone, x.rows(), x.row_size(), n},
                 x_scale,
                 weight_scale.base<const float>(),
                 nullptr,
                 nullptr,
                 nullptr};
  const auto round_up = [](std::int64_t bytes) { return std::size_t(bytes + 63) / 64 * 64; };
  const std::int64_t rows = std::min(p.rows, kPackedRows);
  const std::int64_t left = rows * p.pairs() * 2 * std::int64_t(sizeof(typename M::Left));
  const std::size_t at = round_up(left) + round_up(panel_bytes);
  p.scale = ctx.Workspace<float>(at);
  p.offset = reinterpret_cast<std::uint32_t*>(p.scale + p.rows);
  p.bytes = reinterpret_cast<std::int8_t*>(p.offset + p.rows);
  return p;
}

template <template <class> class M>
inline void MultiplyBytes(const Context& ctx, const Tensor& x, const Tensor* x_scale,
                          const Tensor& weight, const Tensor& weight_scale, const Tensor* bias,
                          const Tensor& y) {
  using Packed = M<I8x2>;
  const int threads = ctx.threads > 1 ? ctx.threads : 1;
  const std::int64_t panels = threads * ((x.row_size() + 3) / 4 * 4 * kPanel + 1);
  const BytesProduct p =
      BytesProductOf<Packed>(ctx, x, x_scale, weight.dim(0), weight_scale, bias, y, panels);
  if (p.rows == 0 || p.n == 0) return;
  if (p.rows > kMaxRows) {
    return MultiplyPacking<Packed>(ctx, p, weight.base<const std::int8_t>(), weight.stride(0));
  }
  for (std::int64_t r = 0; r < p.rows; ++r) PrepareRow<Packed>(p, r);
  MultiplyByRows<M<std::int8_t>>(ctx, p, weight);
}

template <template <class> class M>
void RunLinearInt8(const Context& ctx, const Tensor& x, const Tensor& weight,
                   const Tensor& weight_scale, const Tensor* bias, const Tensor& y) {
  MultiplyBytes<M>(ctx, x, nullptr, weight, weight_scale, bias, y);
}

template <template <class> class M>
void RunLinearInt8Quantized(const Context& ctx, const Tensor& x, const Tensor& x_scale,
                            const Tensor& weight, const Tensor& weight_scale, const Tensor* bias,
                            DType, const Tensor& y) {
  MultiplyBytes<M>(ctx, x, &x_scale, weight, weight_scale, bias, y);
}

template <template <class> class M>
void RunLinearInt8Packed(const Context& ctx, const Tensor& x, const Tensor& packed,
                         std::int64_t features, const Tensor& weight_scale, const Tensor* bias,
                         const Tensor& y) {
  const BytesProduct p =
      BytesProductOf<M<I8x2>>(ctx, x, nullptr, features, weight_scale, bias, y, 0);
  if (p.rows == 0 || p.n == 0) return;
  MultiplyPacked<M<I8x2>>(ctx, p, packed.base<const I8x2>());
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
