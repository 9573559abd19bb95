// SPDX-License-Identifier: Apache-2.0
// The kernels of linear_int8 and linear_int8_quantized, packed and not, for one math template each
// (ops/common/gemm/int8.h).
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
  Part<std::int32_t, N> sums_of;  // [panels][32]: of the weight's rows, for zero points of x
  Part<std::int8_t, N> bytes_of;  // [packed rows][pitch]
  constexpr BytesWorkspace(N threads, N rows, N fours, N panels, bool packs)
      : PackedWorkspace<M, N>(threads, rows, fours, panels, packs),
        scale(this->template Add<float>(rows)),
        offset(this->template Add<std::uint32_t>(rows)),
        sums_of(this->template Add<std::int32_t>(N(kPanel) * panels)),
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

// x that is bytes already: what they stand for. Numbers of each row, or one for all.
struct GivenBytes {
  const Tensor* scale = nullptr;  // null: x is floats
  const Tensor* zero = nullptr;
  const std::int32_t* weight_sums = nullptr;  // [n], exact; for zero

  template <class T>
  static T At(const Tensor& numbers, std::int64_t row) {
    return numbers.base<const T>()[numbers.rank() > 1 ? numbers.row_offset(row) : 0];
  }
};

// y = f32(A) * weight_scale * x_scale + bias, A = bytes of x, less its zero point, times bytes of
// weights: in this order x near the largest float does not overflow on the way.
struct BytesProduct {
  using Sum = std::int32_t;
  using Element = std::int8_t;
  const Tensor& x;  // [rows, k]
  GivenBytes given;
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
  std::int32_t weight_sums[kPanel] = {};
  if (bias) {
    VisitFloat(bias->type(), [&](auto zero) {
      ReadBiases(bias->base<const decltype(zero)>() + column, columns, biases);
    });
  }
  if (given.zero) std::copy_n(given.weight_sums + column, columns, weight_sums);
  VisitFloat(y.type(), [&](auto zero) {
    for (std::int64_t r = first; r < first + count; ++r) {
      Excess excess{offset[r]};
      if (given.zero) {
        excess.zero = GivenBytes::At<std::int32_t>(*given.zero, r);
        excess.weight_sums = weight_sums;
      }
      auto* to = y.base<decltype(zero)>() + y.row_offset(r) + column;
      StoreBytesRow(sums + (r - first) * kPanel, excess, scale[r], weight_scale + column,
                    bias ? biases : nullptr, columns, to);
    }
  });
}

// Bytes, scale and offset of one row.
template <class M>
inline void BytesProduct::PrepareRow(std::int64_t r) const {
  std::int8_t* q = Bytes(r);
  if (given.scale) {
    std::memcpy(q, x.base<const std::int8_t>() + x.row_offset(r), std::size_t(k));
    scale[r] = GivenBytes::At<float>(*given.scale, r);
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

// Sums of the weight's rows: its product with one row of ones.
struct WeightSums {
  using Sum = std::int32_t;
  using Element = std::int8_t;
  std::int64_t k, n;
  std::int8_t* ones;     // [k], with room up to PitchOfBytes
  std::int32_t* sums;    // [n]
  std::uint32_t offset;  // what a sum is too large by
  std::int64_t rows = 1;

  std::int64_t steps() const { return CeilDiv(k, 4); }
  std::int64_t panels() const { return CeilDiv(n, kPanel); }
  const std::int8_t* row(std::int64_t) const { return ones; }

  template <class Part>
  void PackRows(const Context&, const Part& part) const {
    const I8x2* from[1] = {reinterpret_cast<const I8x2*>(ones)};
    ops::PackRows(from, 2 * steps(), part.Row(0));
  }
  void StorePanel(const std::int32_t* made, std::int64_t, std::int64_t, std::int64_t panel) const {
    for (std::int64_t j = panel * kPanel; j < std::min(n, (panel + 1) * kPanel); ++j) {
      sums[j] = std::int32_t(std::uint32_t(made[j % kPanel]) - offset);
    }
  }
};
template <class M>
inline WeightSums WeightSumsOf(std::int64_t k, std::int64_t n, std::int8_t* ones,
                               std::int32_t* sums) {
  std::memset(ones, 1, std::size_t(k));
  FinishBytes(ones, k, false);
  return {k, n, ones, sums, std::uint32_t(k) * M::kOffset};
}

template <class M>
inline BytesProduct BytesProductOf(const Tensor& x, const GivenBytes& given, std::int64_t n,
                                   const Tensor& weight_scale, const Tensor* bias, const Tensor& y,
                                   const Placed& placed,
                                   const BytesWorkspace<M, std::int64_t>& parts) {
  return {x,
          given,
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
inline void MultiplyBytes(const Context& ctx, const Tensor& x, GivenBytes given,
                          const Tensor& weight, const Tensor& weight_scale, const Tensor* bias,
                          const Tensor& y) {
  using Packed = M<I8x2>;
  using Plain = M<std::int8_t>;
  const std::int64_t n = weight.dim(0);
  const BytesWorkspace<Packed, std::int64_t> parts(
      ThreadsOf(ctx), x.rows(), CeilDiv(x.row_size(), 4), CeilDiv(n, kPanel), true);
  const Placed placed(ctx, parts);
  if (x.rows() == 0 || n == 0) return;
  if (given.zero) {
    std::int32_t* sums = placed[parts.sums_of];
    MultiplyByRows<Plain>(ctx, WeightSumsOf<Plain>(x.row_size(), n, placed[parts.bytes_of], sums),
                          weight);
    given.weight_sums = sums;
  }
  const BytesProduct p = BytesProductOf<Packed>(x, given, n, weight_scale, bias, y, placed, parts);
  if (p.rows > kMaxRows) {
    return MultiplyPacking<Packed>(ctx, p, placed, parts, weight.base<const std::int8_t>(),
                                   weight.stride(0));
  }
  for (std::int64_t r = 0; r < p.rows; ++r) p.PrepareRow<Packed>(r);
  MultiplyByRows<Plain>(ctx, p, weight);
}

template <template <class> class M>
inline void MultiplyPackedBytes(const Context& ctx, const Tensor& x, GivenBytes given,
                                const Tensor& packed, std::int64_t features,
                                const Tensor& weight_scale, const Tensor* bias, const Tensor& y) {
  using Packed = M<I8x2>;
  const BytesWorkspace<Packed, std::int64_t> parts(ThreadsOf(ctx), x.rows(),
                                                   CeilDiv(x.row_size(), 4), packed.dim(0), false);
  const Placed placed(ctx, parts);
  if (x.rows() == 0 || features == 0) return;
  if (given.zero && !given.weight_sums) {
    std::int32_t* sums = placed[parts.sums_of];
    MultiplyPacked<Packed>(
        ctx, WeightSumsOf<Packed>(x.row_size(), features, placed[parts.bytes_of], sums), placed,
        parts, packed.base<const I8x2>());
    given.weight_sums = sums;
  }
  const BytesProduct p =
      BytesProductOf<Packed>(x, given, features, weight_scale, bias, y, placed, parts);
  MultiplyPacked<Packed>(ctx, p, placed, parts, packed.base<const I8x2>());
}

template <template <class> class M>
void RunLinearInt8(const Context& ctx, const Tensor& x, const Tensor& weight,
                   const Tensor& weight_scale, const Tensor* bias, const Tensor& y) {
  MultiplyBytes<M>(ctx, x, {}, weight, weight_scale, bias, y);
}

template <template <class> class M>
void RunLinearInt8Quantized(const Context& ctx, const Tensor& x, const Tensor& x_scale,
                            const Tensor& weight, const Tensor& weight_scale, const Tensor* bias,
                            DType, const Tensor* x_zero, const Tensor& y) {
  MultiplyBytes<M>(ctx, x, {&x_scale, x_zero}, weight, weight_scale, bias, y);
}

template <template <class> class M>
void RunLinearInt8Packed(const Context& ctx, const Tensor& x, const Tensor& packed,
                         std::int64_t features, const Tensor& weight_scale, const Tensor* bias,
                         const Tensor& y) {
  MultiplyPackedBytes<M>(ctx, x, {}, packed, features, weight_scale, bias, y);
}

template <template <class> class M>
void RunLinearInt8QuantizedPacked(const Context& ctx, const Tensor& x, const Tensor& x_scale,
                                  const Tensor& packed, std::int64_t features,
                                  const Tensor& weight_scale, const Tensor* bias, DType,
                                  const Tensor* x_zero, const Tensor* weight_sum, const Tensor& y) {
  const GivenBytes given{&x_scale, x_zero,
                         weight_sum ? weight_sum->base<const std::int32_t>() : nullptr};
  MultiplyPackedBytes<M>(ctx, x, given, packed, features, weight_scale, bias, y);
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
