// SPDX-License-Identifier: Apache-2.0
#include "ops/common/grouped/run.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

void MultiplyGroups(const Context& ctx, const GroupedCall& call, char* memory) {
  MultiplyAnyGroups(ctx, call, memory);
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
