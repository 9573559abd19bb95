// SPDX-License-Identifier: Apache-2.0
// The code that multiplies matrices, compiled once for an instruction set: this is the whole of
// cpu.cc. Files for dot instructions hold only the types that these add.
#pragma once
#include "ops/common/gemm/backward.h"
#include "ops/common/gemm/int8.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

template struct DenseOutput<float>;
template struct DenseOutput<F16>;
template struct DenseOutput<BF16>;
ANYOP_PACK_ROWS(, float, float);
ANYOP_PACK_ROWS(, float, F16);
ANYOP_PACK_ROWS(, float, BF16);
template struct Chunks<PairMath<float>>;
template struct Chunks<PairMath<F16>>;
template struct Chunks<SplitMath>;
template struct Tiles<PairMath<float>>;
template struct RowTiles<PairMath<float>>;
template struct Tiles<PairMath<F16>>;
template struct RowTiles<PairMath<F16>>;
template struct Tiles<SplitMath>;
template struct RowTiles<SplitMath>;
template struct Tiles<WideBytesMath<I8x2>>;
template struct RowTiles<WideBytesMath<std::int8_t>>;
ANYOP_LINEAR_GRADIENTS(PairMath<float>);
ANYOP_LINEAR_GRADIENTS(PairMath<F16>);
ANYOP_LINEAR_GRADIENTS(SplitMath);

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
