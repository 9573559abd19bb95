// SPDX-License-Identifier: Apache-2.0
// Operators that do nothing: what a call costs by itself.
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Nop3(const Context&, const Tensor&, const Tensor*, float, float, const Tensor&) {}
constexpr Kernel kNop3{.name = "cpu_f32", .when = "T == f32", .run = Bind<&Nop3>()};
constexpr const Kernel* kNop3Kernels[] = {&kNop3};

// As many parts as threads, each of which does nothing.
void NopShared(const Context& ctx, const Tensor&, const Tensor&) {
  ctx.ParallelFor(16, 1, [](std::int64_t, std::int64_t) {});
}
constexpr Kernel kNopShared{.name = "cpu_f32", .run = Bind<&NopShared>()};
constexpr const Kernel* kNopSharedKernels[] = {&kNopShared};

void Nop17(const Context&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
           const Tensor&, const Tensor*, std::optional<float>, bool, std::int64_t, std::int64_t,
           float, const Tensor*, const Tensor*, const Tensor*, const Tensor*, bool, const Tensor&,
           const Tensor&) {}
constexpr Kernel kNop17{.name = "cpu_bf16", .when = "T == bf16", .run = Bind<&Nop17>()};
constexpr const Kernel* kNop17Kernels[] = {&kNop17};

}  // namespace

extern constinit const Op nop3{
    .signature =
        "nop3(x: T[..., d], weight: T[d]?, eps: float = 1e-6, weight_offset: float = 0.0) "
        "-> (y: T[..., d] over x) where T in f32 | f16 | bf16, d >= 1, eps >= 0",
    .kernels = kNop3Kernels,
    .rowwise = true,
};
// By its costs it is worth several threads.
extern constinit const Op nop_shared{
    .signature = "nop_shared(x: f32[..., d]) -> (y: f32[..., d] over x)",
    .flops = "1000000",
    .kernels = kNopSharedKernels,
};
extern constinit const Op nop17{
    .signature =
        "nop17(query: T[t, hq, dk], key_cache: C[nb, bs, hkv, dk], value_cache: C[nb, bs, hkv, dv],"
        " block_table: B[b, mb], seq_lens: I[b], query_start_loc: I[b+1]?, scale: float?,"
        " causal: bool = True, window_left: int = -1, window_right: int = -1, softcap: float = 0.0,"
        " sinks: f32[hq]?, k_scale: f32[hkv]?, v_scale: f32[hkv]?, alibi: f32[hq]?,"
        " return_lse: bool = False) -> (y: T[t, hq, dv], lse: f32[hq, t*return_lse])"
        " where T in f32 | f16 | bf16, B in i32 | i64, hq % hkv == 0, softcap >= 0",
    .kernels = kNop17Kernels,
};

}  // namespace anyop::ops
