// SPDX-License-Identifier: Apache-2.0
// Functions of floats, element by element, in double: for references.
#pragma once
#include "anyop/op.h"

namespace anyop::ops {

// to[i] = f(x[i]...) for tensors of one shape.
template <class F, class... Xs>
void ReferenceEach(const Tensor& to, F f, const Xs&... xs) {
  for (std::int64_t r = 0; r < to.rows(); ++r) {
    for (std::int64_t j = 0; j < to.row_size(); ++j) {
      to.base<double>()[to.row_offset(r) + j] = f(Read(xs, xs.row_offset(r) + j)...);
    }
  }
}

}  // namespace anyop::ops
