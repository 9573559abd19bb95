// SPDX-License-Identifier: Apache-2.0
// A product y = activation(x weight^T + bias): what is read, what is written, and how sums in f32
// become elements of y.
#pragma once
#include <cstdint>

#include "anyop/op.h"
#include "anyop/simd.h"
#include "ops/common/activation.h"
#include "ops/common/gemm/math.h"

namespace anyop::ops {

// Code that takes a type P of products also takes one that hides some of these members, and has
// functions StorePanel, ForPackedRows and PackPanel of its own.
struct Product {
  const Tensor& x;     // [rows, k]
  const Tensor* bias;  // [n]
  const Tensor& y;     // [rows, n]
  Activation activation;
  std::int64_t rows, k, n;

  template <class T>
  [[gnu::always_inline]] const T* row(std::int64_t r) const {
    return x.base<const T>() + x.row_offset(r);
  }
  std::int64_t pairs() const { return (k + 1) / 2; }
  std::int64_t panels() const { return (n + 31) / 32; }
};

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

// Writes columns [32 panel, ...) of rows [first, first + rows) from sums [rows][32]. y is T or f32.
template <class T>
[[gnu::noinline]] void StorePanel(const Product& p, const float* sums, std::int64_t first,
                                  std::int64_t rows, std::int64_t panel) {
  const std::int64_t column = panel * kPanel;
  const std::int64_t columns = p.n - column < kPanel ? p.n - column : kPanel;
  const T* bias = p.bias ? p.bias->base<const T>() + column : nullptr;
  const auto store = [&](auto zero) {
    using Y = decltype(zero);
    VisitActivation(p.activation, [&](auto activation) {
      for (std::int64_t r = 0; r < rows; ++r) {
        Y* y = p.y.base<Y>() + p.y.row_offset(first + r) + column;
        StoreRow<activation.value>(sums + r * kPanel, bias, y, columns);
      }
    });
  };
  if (p.y.type() == DType::kF32) return store(float{});
  store(T{});
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
