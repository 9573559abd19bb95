// SPDX-License-Identifier: Apache-2.0
// What code that multiplies asks of a product, and the product of a dense layer: y = activation(
// x weight^T + bias), sums in f32.
#pragma once
#include <concepts>
#include <cstdint>

#include "anyop/op.h"
#include "anyop/simd.h"
#include "ops/common/elementwise/activation.h"
#include "ops/common/gemm/math.h"

namespace anyop::ops {

inline namespace ANYOP_ISA {

// Panels worth 2 us: a core does about 100 multiply-adds and 25 bytes of weights in a nanosecond.
template <class T>
inline std::int64_t PanelGrain(std::int64_t rows, std::int64_t k) {
  const double elements = double(kPanel) * double(k);
  const double ns = elements * double(rows) / 100 + elements * sizeof(T) / 25 + 10;
  return std::int64_t(2000 / ns) + 1;
}

template <Activation kActivation, class T, class Y>
inline void StoreRow(const float* sums, const T* bias, Y* y, std::int64_t columns) {
  ForLanes(columns, [&](std::int64_t j, auto count) {
    F32 v = LoadN(sums + j, count);
    if (bias) v += LoadN(bias + j, count);
    StoreN(y + j, Activate<kActivation>(v), count);
  });
}

// A product whose sums come in panels of 32 columns.
//
//   rows, k, n   sizes: y is [rows, n], sums have k terms
//   steps()      along k, of packed panels: see tile.h
//   panels()     of y
//   Sum          what a sum is, as its math has it
//   StorePanel   writes columns [32 panel, ...) of rows [first, first + rows) of y, from
//                sums [rows][32]
template <class P>
concept PanelProduct = requires(const P& p, const typename P::Sum* sums, std::int64_t i) {
  { p.rows } -> std::convertible_to<std::int64_t>;
  { p.k } -> std::convertible_to<std::int64_t>;
  { p.n } -> std::convertible_to<std::int64_t>;
  { p.steps() } -> std::same_as<std::int64_t>;
  { p.panels() } -> std::same_as<std::int64_t>;
  p.StorePanel(sums, i, i, i);
};
// A product that knows its rows of x: row(r) points to the Elements of row r, and PackRows(ctx,
// part) packs the rows of a PackedProduct.
template <class P>
concept RowsProduct = PanelProduct<P> && requires(const P& p, std::int64_t i) {
  { p.row(i) } -> std::same_as<const typename P::Element*>;
};

// Writes the sums of a dense layer to y. T: the type of bias, and of y where y is not f32.
template <class T>
struct DenseOutput {
  using Sum = float;
  const Tensor* bias;  // [n]
  const Tensor& y;     // [rows, n]
  std::int64_t n;
  Activation activation;

  std::int64_t panels() const { return (n + kPanel - 1) / kPanel; }
  void StorePanel(const float* sums, std::int64_t first, std::int64_t rows,
                  std::int64_t panel) const;
};
template <class T>
void DenseOutput<T>::StorePanel(const float* sums, std::int64_t first, std::int64_t rows,
                                std::int64_t panel) const {
  const std::int64_t column = panel * kPanel;
  const std::int64_t columns = n - column < kPanel ? n - column : kPanel;
  const T* b = bias ? bias->base<T>() + column : nullptr;
  const auto store = [&](auto zero) {
    using Y = decltype(zero);
    VisitActivation(activation, [&](auto a) {
      for (std::int64_t r = 0; r < rows; ++r) {
        Y* row = y.base<Y>() + y.row_offset(first + r) + column;
        StoreRow<a.value>(sums + r * kPanel, b, row, columns);
      }
    });
  };
  if (y.type() == DType::kF32) return store(float{});
  store(T{});
}

// Compiled once for each instruction set, as is all code that multiplies without knowing which
// operator's product it computes.
extern template struct DenseOutput<BF16>;
#if !defined(__AVX512BF16__)
extern template struct DenseOutput<float>;
extern template struct DenseOutput<F16>;
#endif

// Where a product finds its rows of x: in the tensor, in copies, or nowhere, if its sides are
// packed in another way.
template <class T>
struct TensorRows {
  using Element = T;
  const Tensor& x;
  [[gnu::always_inline]] const T* operator[](std::int64_t r) const {
    return x.base<const T>() + x.row_offset(r);
  }
};
template <class T>
struct CopiedRows {
  using Element = T;
  const char* copies;
  std::int64_t pitch;  // bytes
  [[gnu::always_inline]] const T* operator[](std::int64_t r) const {
    return reinterpret_cast<const T*>(copies + r * pitch);
  }
};
struct NoRows {
  using Element = void;
};

template <class T, class X = TensorRows<T>>
struct DenseProduct : DenseOutput<T> {
  using Element = typename X::Element;
  X x;
  std::int64_t rows, k;

  std::int64_t steps() const { return (k + 1) / 2; }
  [[gnu::always_inline]] const Element* row(std::int64_t r) const { return x[r]; }
  template <class Part>
  void PackRows(const Context& ctx, const Part& part) const {
    part.PackRowsOf(ctx, 0, [&](std::int64_t r) { return x[r]; });
  }
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
