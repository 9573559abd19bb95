// SPDX-License-Identifier: Apache-2.0
// The kernel of attention_backward of every instruction set.
#pragma once
#include "anyop/op.h"
#include "ops/attention/backward.h"

namespace anyop::ops {
namespace {

constexpr SizeText BackwardBytes() {
  const AttentionDims<SizeText> sizes{"threads", "b", "tq", "hq", "hkv", "tk", "dk", "dv"};
  const SizeText runs_forward = Max(SizeText(std::int64_t{0}), SizeText(1) - "l");
  return BackwardWorkspace<SizeText>(sizes, runs_forward, "bytes(T)").bytes();
}

// Runs the forward for its lse alone.
void ComputeLse(const Context& ctx, const AttentionCall& call, const Placed& placed,
                const BackwardWorkspace<std::int64_t>& layout, const Tensor& lse) {
  Tensor y = call.y;
  y.data = placed[layout.y];
  y.byte_offset = 0;
  y.strides = nullptr;
  AttentionCall forward{call.options,   call.store, call.query, call.query_start_loc,
                        call.sequences, y,          &lse};
  Context inner = ctx;
  inner.workspace = placed[layout.forward];
  inner.workspace_bytes = std::uint64_t(layout.forward.count);
  RunAttention(inner, forward);
}

template <class T>
void RunBackwardOf(const Context& ctx, const AttentionCall& given, const Tensor& dy,
                   const Tensor* dlse, const Tensor* dquery, const Tensor* dkey,
                   const Tensor* dvalue, const Tensor* dsinks) {
  AttentionCall call = given;
  const std::int64_t shape[] = {call.heads(), call.query.dim(0)};
  Tensor lse = *given.lse;
  const bool runs_forward = lse.dim(1) == 0;
  const BackwardWorkspace<std::int64_t> layout(SizesOf(ctx, call), runs_forward,
                                               Bytes(call.y.type()));
  const Placed placed(ctx, layout);
  BackwardRun<T> run(ctx, call, dy, dlse, dquery, dkey, dvalue, placed, layout);
  if (runs_forward) {
    lse.data = placed[layout.lse];
    lse.byte_offset = 0;
    lse.shape = const_cast<std::int64_t*>(shape);
    lse.strides = nullptr;
    call.lse = &lse;
    ComputeLse(ctx, call, placed, layout, lse);
  }
  if (dquery || dkey || dvalue) run.Run();
  if (dsinks) SumSinks<T>(ctx, {call, dy, dlse, nullptr, nullptr, nullptr, nullptr}, *dsinks);
}

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& query, const Tensor& key,
                 const Tensor& value, const Tensor& y, const Tensor& lse,
                 const Tensor& query_start_loc, const Tensor& key_start_loc,
                 std::optional<float> scale, bool causal, std::int64_t window_left,
                 std::int64_t window_right, float softcap, const Tensor* alibi_slopes,
                 const Tensor* sinks, const Tensor* given_dlse, const Tensor* dquery,
                 const Tensor* dkey, const Tensor* dvalue, const Tensor* dsinks) {
  const Tensor* dlse = given_dlse && given_dlse->dim(1) ? given_dlse : nullptr;
  const AttentionCall call{
      .options = MakeOptions(scale, query.dim(2), causal, window_left, window_right, softcap,
                             alibi_slopes, sinks),
      .store = {.keys = key, .values = value, .table = nullptr, .extent = key_start_loc},
      .query = query,
      .query_start_loc = &query_start_loc,
      .sequences = query_start_loc.dim(0) - 1,
      .y = y,
      .lse = &lse};
  switch (query.type()) {
    case DType::kF32:
      return RunBackwardOf<float>(ctx, call, dy, dlse, dquery, dkey, dvalue, dsinks);
    case DType::kF16:
      return RunBackwardOf<F16>(ctx, call, dy, dlse, dquery, dkey, dvalue, dsinks);
    default:
      return RunBackwardOf<BF16>(ctx, call, dy, dlse, dquery, dkey, dvalue, dsinks);
  }
}

}  // namespace
}  // namespace anyop::ops
