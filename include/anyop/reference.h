// SPDX-License-Identifier: Apache-2.0
// For references whose rule depends on the dtype that a call writes. The tensors of a reference
// hold f64 in place of every float, so that they do not tell. Its context's `data` does: an array
// with a byte for each entry of the frame, the dtype of the call's tensor there (of a list, of its
// first tensor), or 255.
#pragma once
#include "anyop/op.h"

namespace anyop {

// entry: the place among the parameters and then the results.
inline DType CallDType(const Context& ctx, int entry) {
  return DType(static_cast<const std::uint8_t*>(ctx.data)[entry]);
}

}  // namespace anyop
