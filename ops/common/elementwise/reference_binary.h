// SPDX-License-Identifier: Apache-2.0
// Plain forms of elementwise functions of two tensors and of their gradients, for references.
#pragma once
#include <type_traits>

#include "anyop/op.h"

namespace anyop::ops {

// z = op(x, y): floats in double, integers wrap. y is one row for all where its rank is lower.
template <class Op>
void ReferenceBinary(const Tensor& x, const Tensor& y, const Tensor& z, Op op) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const std::int64_t ix = x.row_offset(r), iz = z.row_offset(r);
    const std::int64_t iy = y.rank() < x.rank() ? 0 : y.row_offset(r);
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      if (IsFloat(x.type())) {
        z.base<double>()[iz + j] = op(Read(x, ix + j), Read(y, iy + j));
      } else {
        VisitIndex(x.type(), [&](auto zero) {
          using T = decltype(zero);
          using U = std::make_unsigned_t<T>;
          const T a = x.base<const T>()[ix + j], b = y.base<const T>()[iy + j];
          z.base<T>()[iz + j] = T(op(U(a), U(b)));
        });
      }
    }
  }
}

// dx = op(dz, y) and dy = op(dz, x), the latter summed over the rows where y is one row for all.
template <class Op>
void ReferenceBinaryBackward(const Tensor& dz, const Tensor& x, const Tensor& y, const Tensor* dx,
                             const Tensor* dy, Op op) {
  const bool is_row = y.rank() < dz.rank();
  for (std::int64_t j = 0; dy && is_row && j < y.dim(0); ++j) dy->base<double>()[j] = 0;
  for (std::int64_t r = 0; r < dz.rows(); ++r) {
    const std::int64_t iy = is_row ? 0 : y.row_offset(r);
    for (std::int64_t j = 0; j < dz.row_size(); ++j) {
      const double g = Read(dz, dz.row_offset(r) + j);
      if (dx) dx->base<double>()[dx->row_offset(r) + j] = op(g, Read(y, iy + j));
      if (!dy) continue;
      const double term = op(g, Read(x, x.row_offset(r) + j));
      if (is_row) {
        dy->base<double>()[j] += term;
      } else {
        dy->base<double>()[dy->row_offset(r) + j] = term;
      }
    }
  }
}

}  // namespace anyop::ops
