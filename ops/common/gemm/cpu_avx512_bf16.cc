// SPDX-License-Identifier: Apache-2.0
#include "ops/common/gemm/backward.h"
#include "ops/common/gemm/rows.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

template struct DenseOutput<BF16>;
ANYOP_PACK_ROWS(, BF16, BF16);
template struct Chunks<DotMath>;
template struct Tiles<DotMath>;
template struct RowTiles<DotMath>;
ANYOP_LINEAR_GRADIENTS(DotMath);

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
