// SPDX-License-Identifier: Apache-2.0
#include "ops/common/gemm/backward.h"
#include "ops/common/gemm/rows.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

template struct Tiles<DotMath>;
template struct RowTiles<DotMath>;
ANYOP_LINEAR_GRADIENTS(DotMath);

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
