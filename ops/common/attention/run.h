// SPDX-License-Identifier: Apache-2.0
// Attention for every operator that needs it: describe the call, give the workspace, run.
#pragma once
#include "ops/common/attention/options.h"

// Workspace of RunAttention in bytes, for expressions: the counter, the first item of each
// sequence, scratch for each thread, parts of split rows. `tokens` is the dimension of the queries,
// `keys` bounds the keys of a sequence; b, dk, dv, hq and hkv are called so in every signature.
#define ANYOP_FEW_ROWS(tokens) "min(16, " tokens "*(hq/hkv))"
#define ANYOP_ATTENTION_WORKSPACE(tokens, keys) \
  "64 + 64*ceil_div(8*(b + 1), 64)"                                                  \
  " + threads*4*max(8192*(ceil_div(dk, 64) + ceil_div(dv, 64)) + 64*64 + 16*64"    \
  ", min(hkv, 8)*4*ceil_div(" ANYOP_FEW_ROWS(tokens)                                 \
  ", 4)*64*(ceil_div(dk, 64) + 2*ceil_div(dv, 64)) + 16*80)"                         \
  " + 4*min(" tokens ", 4*threads)*hkv*" ANYOP_FEW_ROWS(tokens)                      \
  "*ceil_div(" keys ", 512)*(64*ceil_div(dv, 64) + 16)"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Defined once for each instruction set, in files compiled for it.
void RunAttention(const Context& ctx, const AttentionCall& call);

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
