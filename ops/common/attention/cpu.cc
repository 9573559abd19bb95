// SPDX-License-Identifier: Apache-2.0
#include "ops/common/attention/items.h"
#include "ops/common/attention/run.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

void RunAttention(const Context& ctx, const AttentionCall& call) { AttentionRun(ctx, call).Run(); }

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
