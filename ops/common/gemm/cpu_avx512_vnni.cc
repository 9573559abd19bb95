// SPDX-License-Identifier: Apache-2.0
#include "ops/common/gemm/int8.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

template struct Tiles<DotBytesMath<I8x2>>;
template struct RowTiles<DotBytesMath<std::int8_t>>;

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
