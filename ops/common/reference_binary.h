// SPDX-License-Identifier: Apache-2.0
// Plain forms of elementwise functions of two tensors, for references.
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

}  // namespace anyop::ops
