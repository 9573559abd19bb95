// SPDX-License-Identifier: Apache-2.0
// Attention for every operator that needs it: describe the call, give an AttentionWorkspace, run.
#pragma once
#include "ops/common/attention/layout.h"
#include "ops/common/attention/options.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline AttentionDims<std::int64_t> SizesOf(const Context& ctx, const AttentionCall& call) {
  return {ThreadsOf(ctx),     call.sequences,         call.query.dim(0), call.heads(),
          call.store.heads(), call.store.most_keys(), call.query.dim(2), call.y.dim(2)};
}

// Defined once for each instruction set, in files compiled for it.
void RunAttention(const Context& ctx, const AttentionCall& call);

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
