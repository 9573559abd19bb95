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

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Bytes of a row of x; rows 4096 apart would share one set of the first level of cache.
template <class N>
constexpr N PitchOfBytes(const N& k) {
  return LineBytes(k, 1) + N(64);
}

// Fours: of bytes of a row. No panels where the weight is packed: then threads is 0.
template <class M, class N>
struct BytesWorkspace : PackingWorkspace<M, N> {
  Part<float, N> scale;           // [rows]
  Part<std::uint32_t, N> offset;  // [rows]
  Part<std::int8_t, N> bytes_of;  // [packed rows][pitch]
  constexpr BytesWorkspace(N threads, N rows, N fours)
      : PackingWorkspace<M, N>(threads, rows, fours),
        scale(this->template Add<float>(rows)),
        offset(this->template Add<std::uint32_t>(rows)),
        bytes_of(this->template Add<std::int8_t>(Min(rows, N(kPackedRows)) *
                                                 PitchOfBytes(N(4) * fours))) {}
};
template <template <class> class M>
constexpr SizeText BytesWorkspaceBytes() {
  const SizeText fours = CeilDiv(SizeText("k"), SizeText(4));
  return BytesWorkspace<M<I8x2>, SizeText>("threads", "rows(x)", fours).bytes();
}
template <template <class> class M>
constexpr SizeText PackedBytesWorkspaceBytes() {
  return BytesWorkspace<M<I8x2>, SizeText>(std::int64_t{0}, "rows(x)", "k4").bytes();
}

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
  std::int64_t pitch() const { return PitchOfBytes(k); }
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
inline void ForPackedRows(const Context& ctx, const BytesProduct& p, typename M::Left* left,
                          F&& f) {
  for (std::int64_t first = 0; first < p.rows; first += kPackedRows) {
    const PackedProduct<M, BytesProduct> part = PartOf<M>(ctx, p, left, first);
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

template <class M>
inline BytesProduct BytesProductOf(const Tensor& x, const Tensor* x_scale, std::int64_t n,
                                   const Tensor& weight_scale, const Tensor* bias, const Tensor& y,
                                   const Placed& placed,
                                   const BytesWorkspace<M, std::int64_t>& parts) {
  return {{x, bias, y, Activation::kNone, x.rows(), x.row_size(), n},
          x_scale,
          weight_scale.base<const float>(),
          placed[parts.scale],
          placed[parts.offset],
          placed[parts.bytes_of]};
}

template <template <class> class M>
inline void MultiplyBytes(const Context& ctx, const Tensor& x, const Tensor* x_scale,
                          const Tensor& weight, const Tensor& weight_scale, const Tensor* bias,
                          const Tensor& y) {
  using Packed = M<I8x2>;
  const BytesWorkspace<Packed, std::int64_t> parts(ThreadsOf(ctx), x.rows(),
                                                   CeilDiv(x.row_size(), 4));
  const Placed placed(ctx, parts);
  const BytesProduct p =
      BytesProductOf<Packed>(x, x_scale, weight.dim(0), weight_scale, bias, y, placed, parts);
  if (p.rows == 0 || p.n == 0) return;
  if (p.rows > kMaxRows) {
    return MultiplyPacking<Packed>(ctx, p, placed, parts, weight.base<const std::int8_t>(),
                                   weight.stride(0));
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
  const BytesWorkspace<M<I8x2>, std::int64_t> parts(0, x.rows(), CeilDiv(x.row_size(), 4));
  const Placed placed(ctx, parts);
  const BytesProduct p =
      BytesProductOf<M<I8x2>>(x, nullptr, features, weight_scale, bias, y, placed, parts);
  if (p.rows == 0 || p.n == 0) return;
  MultiplyPacked<M<I8x2>>(ctx, p, placed[parts.left], packed.base<const I8x2>());
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
