// SPDX-License-Identifier: Apache-2.0
// my_operator: a scaled product of two tensors.
//
//   y[r, i] = scale * x[r, i] * gate[r, i]
//
//   scale  the same for every element
//
// Numerics  f32 for every T; one rounding, on the store to y. NaN stays NaN.
// Source    none; this operator came with the package. Change it.

#include "anyop/op.h"

namespace anyop::ops {

// Its kernel is in ascend.cpp. One for the CPU would be a file cpu.cc.
extern constinit const Op my_operator{
    .signature =
        "my_operator(x: T[..., d], gate: T[..., d], scale: float = 1.0) -> (y: T[..., d] over x) "
        "where T in f32 | f16 | bf16",
    .flops = "2 * size(y)",
};

}  // namespace anyop::ops
