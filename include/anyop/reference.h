// SPDX-License-Identifier: Apache-2.0
// For references whose rule depends on the dtype that a call writes. They write floats as f64 and
// see what is written so. Their context's `data` is an array of bytes, one for each entry of the
// frame: the dtype of the tensor that the call has there (of a list, of its first one), or 255.
#pragma once
#include "anyop/op.h"

namespace anyop {

// entry: the place among the parameters and then the results.
inline DType CallDType(const Context& ctx, int entry) {
  return DType(static_cast<const std::uint8_t*>(ctx.data)[entry]);
}

}  // namespace anyop
