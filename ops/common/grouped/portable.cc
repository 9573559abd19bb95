// SPDX-License-Identifier: Apache-2.0
#include "ops/common/grouped/run.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

void MultiplyGroups(const Context& ctx, const GroupedCall& call, char* memory) {
  switch (call.type) {
    case DType::kF32:
      return MultiplyGroupsOf<PairMath<float>>(ctx, call, memory);
    case DType::kF16:
      return MultiplyGroupsOf<PairMath<F16>>(ctx, call, memory);
    case DType::kBF16:
      return MultiplyGroupsOf<SplitMath>(ctx, call, memory);
    default:
      return MultiplyByteGroups<WideBytesMath>(ctx, call, memory);
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
