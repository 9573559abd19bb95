// SPDX-License-Identifier: Apache-2.0
// Attention for every operator that needs it: describe the call, give the workspace, run.
#pragma once
#include "ops/common/attention/options.h"

// Workspace of RunAttention in bytes, for expressions: the counter, the first item of each
// sequence, scratch for each thread, parts of split rows. `tokens` is the dimension of the queries,
// `keys` bounds the keys of a sequence; b, dk, dv, hq and hkv are called so in every signature.
#define ANYOP_ATTENTION_WORKSPACE(tokens, keys)                                     \
  "64 + 64*ceil_div(8*(b + 1), 64)"                                                 \
  " + threads*4*(128*(16*ceil_div(dk, 16) + 16*ceil_div(dv, 16)) + 64*64 + 16*64)"  \
  " + 4*min(" tokens "*hkv, 4*threads)*min(16, " tokens "*(hq/hkv))*ceil_div(" keys \
  ", 512)*(16*ceil_div(dv, 16) + 16)"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Defined once for each instruction set, in files compiled for it.
void RunAttention(const Context& ctx, const AttentionCall& call);

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
