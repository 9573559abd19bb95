// SPDX-License-Identifier: Apache-2.0
// The kernels of linear_int8, linear_int8_quantized and linear_int8_packed, for one math template
// each (ops/common/gemm/int8.h).
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "anyop/op.h"
#include "ops/common/elementwise/elementwise.h"
#include "ops/common/gemm/bytes.h"
#include "ops/common/gemm/int8.h"
#include "ops/common/gemm/pack.h"
#include "ops/common/gemm/packed.h"
#include "ops/common/gemm/rows.h"
#include "ops/common/quantize/int8.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// fours: of bytes of a row; packs: as in PackedWorkspace.
template <class M, class N>
struct BytesWorkspace : PackedWorkspace<M, N> {
  Part<float, N> scale;           // [rows]
  Part<std::uint32_t, N> offset;  // [rows]
  Part<std::int8_t, N> bytes_of;  // [packed rows][pitch]
  constexpr BytesWorkspace(N threads, N rows, N fours, N panels, bool packs)
      : PackedWorkspace<M, N>(threads, rows, fours, panels, packs),
        scale(this->template Add<float>(rows)),
        offset(this->template Add<std::uint32_t>(rows)),
        bytes_of(this->template Add<std::int8_t>(Min(rows, N(kPackedRows)) *
                                                 PitchOfBytes(N(4) * fours))) {}
};
template <template <class> class M>
constexpr SizeText BytesWorkspaceBytes() {
  const SizeText fours = CeilDiv(SizeText("k"), SizeText(4));
  const SizeText panels = CeilDiv(SizeText("n"), SizeText(kPanel));
  return BytesWorkspace<M<I8x2>, SizeText>("threads", "rows(x)", fours, panels, true).bytes();
}
template <template <class> class M>
constexpr SizeText PackedBytesWorkspaceBytes() {
  return BytesWorkspace<M<I8x2>, SizeText>("threads", "rows(x)", "k4", "n32", false).bytes();
}

// y = f32(A) * weight_scale * x_scale + bias, A = bytes of x times bytes of weights: in this order
// x near the largest float does not overflow on the way.
struct BytesProduct {
  using Sum = std::int32_t;
  using Element = std::int8_t;
  const Tensor& x;            // [rows, k]
  const Tensor* given_scale;  // of x, where x is bytes already
  const float* weight_scale;  // [n]
  const Tensor* bias;         // [n]
  const Tensor& y;            // [rows, n]
  std::int64_t rows, k, n;
  // For each row of x:
  float* scale;
  std::uint32_t* offset;  // what its sums are too large by
  std::int8_t* bytes;     // the bytes of at most kPackedRows rows, from a multiple of it on

  std::int64_t steps() const { return CeilDiv(k, 4); }
  std::int64_t panels() const { return CeilDiv(n, kPanel); }
  const std::int8_t* row(std::int64_t r) const { return Bytes(r); }
  std::int8_t* Bytes(std::int64_t r) const { return bytes + r % kPackedRows * PitchOfBytes(k); }

  template <class M>
  void PrepareRow(std::int64_t r) const;
  template <class Part>
  void PackRows(const Context& ctx, const Part& part) const;
  void StorePanel(const std::int32_t* sums, std::int64_t first, std::int64_t rows,
                  std::int64_t panel) const;
};

[[gnu::noinline]] inline void BytesProduct::StorePanel(const std::int32_t* sums, std::int64_t first,
                                                       std::int64_t count,
                                                       std::int64_t panel) const {
  const std::int64_t column = panel * kPanel;
  const std::int64_t columns = std::min<std::int64_t>(n - column, kPanel);
  float biases[kPanel];
  if (bias) {
    VisitFloat(bias->type(), [&](auto zero) {
      ReadBiases(bias->base<const decltype(zero)>() + column, columns, biases);
    });
  }
  VisitFloat(y.type(), [&](auto zero) {
    for (std::int64_t r = 0; r < count; ++r) {
      auto* to = y.base<decltype(zero)>() + y.row_offset(first + r) + column;
      StoreBytesRow(sums + r * kPanel, offset[first + r], scale[first + r], weight_scale + column,
                    bias ? biases : nullptr, columns, to);
    }
  });
}

// Bytes, scale and offset of one row.
template <class M>
inline void BytesProduct::PrepareRow(std::int64_t r) const {
  std::int8_t* q = Bytes(r);
  if (given_scale) {
    std::memcpy(q, x.base<const std::int8_t>() + x.row_offset(r), std::size_t(k));
    scale[r] = given_scale->base<const float>()[given_scale->row_offset(r)];
  } else {
    VisitFloat(x.type(), [&](auto zero) {
      const auto* from = x.base<const decltype(zero)>() + x.row_offset(r);
      scale[r] = QuantizeSymmetric(from, k, q).scale;
    });
  }
  offset[r] = std::uint32_t(FinishBytes(q, k, M::kOffset != 0)) * M::kOffset;
}

// Quantizes them on the way.
template <class Part>
inline void BytesProduct::PackRows(const Context& ctx, const Part& part) const {
  part.Pack(ctx, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      PrepareRow<typename Part::Math>(part.first + i);
    }
    part.ForBlocksOf(begin, end, [&](std::int64_t i, auto count) {
      const I8x2* from[count.value];
      for (int r = 0; r < count.value; ++r) {
        from[r] = reinterpret_cast<const I8x2*>(row(part.first + i + r));
      }
      ops::PackRows(from, 2 * steps(), part.Row(i));
    });
  });
}

template <class M>
inline BytesProduct BytesProductOf(const Tensor& x, const Tensor* x_scale, std::int64_t n,
                                   const Tensor& weight_scale, const Tensor* bias, const Tensor& y,
                                   const Placed& placed,
                                   const BytesWorkspace<M, std::int64_t>& parts) {
  return {x,
          x_scale,
          weight_scale.base<const float>(),
          bias,
          y,
          x.rows(),
          x.row_size(),
          n,
          placed[parts.scale],
          placed[parts.offset],
          placed[parts.bytes_of]};
}

template <template <class> class M>
inline void MultiplyBytes(const Context& ctx, const Tensor& x, const Tensor* x_scale,
                          const Tensor& weight, const Tensor& weight_scale, const Tensor* bias,
                          const Tensor& y) {
  using Packed = M<I8x2>;
  const BytesWorkspace<Packed, std::int64_t> parts(
      ThreadsOf(ctx), x.rows(), CeilDiv(x.row_size(), 4), CeilDiv(weight.dim(0), kPanel), true);
  const Placed placed(ctx, parts);
  const BytesProduct p =
      BytesProductOf<Packed>(x, x_scale, weight.dim(0), weight_scale, bias, y, placed, parts);
  if (p.rows == 0 || p.n == 0) return;
  if (p.rows > kMaxRows) {
    return MultiplyPacking<Packed>(ctx, p, placed, parts, weight.base<const std::int8_t>(),
                                   weight.stride(0));
  }
  for (std::int64_t r = 0; r < p.rows; ++r) p.PrepareRow<Packed>(r);
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
  const BytesWorkspace<M<I8x2>, std::int64_t> parts(ThreadsOf(ctx), x.rows(),
                                                    CeilDiv(x.row_size(), 4), packed.dim(0), false);
  const Placed placed(ctx, parts);
  const BytesProduct p =
      BytesProductOf<M<I8x2>>(x, nullptr, features, weight_scale, bias, y, placed, parts);
  if (p.rows == 0 || p.n == 0) return;
  MultiplyPacked<M<I8x2>>(ctx, p, placed, parts, packed.base<const I8x2>());
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
