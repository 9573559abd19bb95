// SPDX-License-Identifier: Apache-2.0
// Operators for the runtime's tests: indices, checks, workspace, errors, probes.
#include <cmath>
#include <cstring>
#include <new>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Scatter(const Context&, const Tensor& x, const Tensor& slots, const Tensor& cache) {
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    const std::int64_t s = ReadIndex(slots, i * slots.stride(0));
    if (s < 0) continue;
    const auto from = x.row<const float>(i);
    const auto to = cache.row<float>(s);
    for (std::size_t k = 0; k < from.size(); ++k) to[k] = from[k];
  }
}
constexpr Kernel kScatter{.name = "cpu_f32", .run = Bind<&Scatter>()};
constexpr const Kernel* kScatterKernels[] = {&kScatter};

void AddIndex(const Context&, const Tensor& x, const Tensor& into) {
  for (std::int64_t i = 0; i < x.size(); ++i) {
    into.base<std::int64_t>()[i] += x.base<const std::int64_t>()[i];
  }
}
constexpr Kernel kAddIndex{.name = "cpu_i64", .run = Bind<&AddIndex>()};
constexpr const Kernel* kAddIndexKernels[] = {&kAddIndex};

void SegmentSum(const Context&, const Tensor& x, const Tensor& starts, const Tensor& y) {
  for (std::int64_t b = 0; b < y.size(); ++b) {
    float sum = 0;
    for (std::int64_t i = ReadIndex(starts, b); i < ReadIndex(starts, b + 1); ++i) {
      sum += x.base<const float>()[i];
    }
    y.base<float>()[b] = sum;
  }
}
constexpr Kernel kSegmentSum{.name = "cpu_f32", .run = Bind<&SegmentSum>()};
constexpr const Kernel* kSegmentSumKernels[] = {&kSegmentSum};

// y[k] = x[at[k] + by[k]]; `spare` is not read.
void Picked(const Context&, const Tensor& x, const Tensor& at, const Tensor& by, const Tensor*,
            const Tensor& y) {
  for (std::int64_t k = 0; k < at.size(); ++k) {
    y.base<float>()[k] = x.base<const float>()[ReadIndex(at, k) + ReadIndex(by, k)];
  }
}
constexpr Kernel kPicked{.name = "cpu_f32", .run = Bind<&Picked>()};
constexpr const Kernel* kPickedKernels[] = {&kPicked};
void CheckPicked(const Context&, const TensorShape& x, const Tensor& at, const Tensor& by,
                 const TensorShape*) {
  for (std::int64_t k = 0; k < at.size(); ++k) {
    const std::int64_t i = ReadIndex(at, k) + ReadIndex(by, k);
    if (i >= 0 && i < x.dim(0)) continue;
    Refuse("row " + std::to_string(i) + " is no row of x.");
  }
}
void CheckEven(const Context&, const TensorShape& x) {
  if (x.dim(0) % 2)
    Refuse("x has " + std::to_string(x.dim(0)) + " rows, but must have an even number.");
}

void PlannedFirst(const Context& ctx, const Tensor& starts, const Tensor& x, const Tensor& y) {
  SegmentSum(ctx, x, starts, y);
}
constexpr Kernel kPlannedFirst{.name = "cpu_f32", .run = Bind<&PlannedFirst>()};
constexpr const Kernel* kPlannedFirstKernels[] = {&kPlannedFirst};

void CheckNotNegative(const Context&, const Tensor& x) {
  for (std::int64_t i = 0; i < x.size(); ++i) {
    if (x.base<const float>()[i] < 0) Refuse("x[" + std::to_string(i) + "] is negative.");
  }
}
void Copy(const Context&, const Tensor& x, const Tensor& y) {
  std::memcpy(y.base<char>(), x.base<char>(), std::size_t(x.size()) * 4);
}
constexpr Kernel kCopy{.name = "cpu_f32", .run = Bind<&Copy>()};
constexpr const Kernel* kCopyKernels[] = {&kCopy};

void CheckWhole(const Context&, const Tensor& x) {
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const float one = x.base<const float>()[i];
    if (one != std::floor(one)) Refuse("x[" + std::to_string(i) + "] is no whole number.");
  }
}

// Says which kernel ran.
template <int kWhich>
void Which(const Context&, const Tensor&, const Tensor*, const Tensor& y) {
  *y.base<float>() = kWhich;
}
constexpr Kernel kBiased{.name = "cpu_biased", .when = "size(bias) >= 1", .run = Bind<&Which<1>>()};
constexpr Kernel kPlain{.name = "cpu_plain", .run = Bind<&Which<2>>()};
constexpr const Kernel* kMaybeKernels[] = {&kBiased, &kPlain};

// y[0] = d * factor; the workspace is written whole, so that a short one is found.
void UseWorkspace(const Context& ctx, const Tensor& x, std::int64_t factor, const Tensor& y) {
  std::memset(ctx.workspace, 0x5a, std::size_t(x.dim(-1)) * 8);
  y.base<float>()[0] = float(x.dim(-1) * factor);
  y.base<float>()[1] = float(ctx.workspace_bytes);
  y.base<float>()[2] = float(reinterpret_cast<std::uintptr_t>(ctx.workspace) % 64);
}
constexpr Kernel kUsesWorkspace{
    .name = "cpu_f32", .workspace = "8 * d", .run = Bind<&UseWorkspace>()};
constexpr const Kernel* kUsesWorkspaceKernels[] = {&kUsesWorkspace};

void Throw(const Context&, std::int64_t what, const Tensor&) {
  if (what == 1) throw std::bad_alloc();
  if (what == 2) Refuse("what is 2.");
  if (what == 3) throw std::runtime_error("broken.");
  if (what == 4) throw 4;
}
constexpr Kernel kThrow{.name = "cpu_f32", .run = Bind<&Throw>()};
constexpr const Kernel* kThrowKernels[] = {&kThrow};

// Two kernels of which the second does a hundredth of the work.
template <int kRounds>
void Spin(const Context&, const Tensor& x, const Tensor& y) {
  volatile float sum = 0;
  for (int k = 0; k < kRounds; ++k) {
    for (std::int64_t i = 0; i < x.size(); ++i) sum = sum + x.base<const float>()[i];
  }
  *y.base<float>() = kRounds;
}
constexpr Kernel kSlow{.name = "cpu_slow", .run = Bind<&Spin<100>>(), .probe = "n = 256"};
constexpr Kernel kFast{.name = "cpu_fast", .run = Bind<&Spin<1>>(), .probe = "n = 256"};
constexpr const Kernel* kSpinKernels[] = {&kSlow, &kFast};

// As much work as the integers say: none where all are 0.
template <int kRounds>
void SpinRows(const Context& ctx, const Tensor& x, const Tensor& starts, const Tensor& times,
              const Tensor& y) {
  for (std::int64_t row = 0; row < times.size(); ++row) {
    if (ReadIndex(starts, row + 1) == ReadIndex(starts, row)) continue;
    for (std::int64_t k = 0; k < ReadIndex(times, row); ++k) Spin<kRounds>(ctx, x, y);
  }
  *y.base<float>() = kRounds;
}
constexpr const char* kSpinRowsProbe = "n = 256, r = 4, times = 8";
constexpr Kernel kSlowRows{
    .name = "cpu_slow", .run = Bind<&SpinRows<100>>(), .probe = kSpinRowsProbe};
constexpr Kernel kFastRows{
    .name = "cpu_fast", .run = Bind<&SpinRows<1>>(), .probe = kSpinRowsProbe};
constexpr const Kernel* kSpinRowsKernels[] = {&kSlowRows, &kFastRows};

const char* AcceptsSmall(const anyop_value* frame) {
  return frame[1].i <= 8 ? nullptr : "k is above 8";
}
void First(const Context&, const Tensor& x, std::int64_t, const Tensor& y) {
  y.base<float>()[0] = x.base<const float>()[0];
}
constexpr Kernel kSmall{.name = "cpu_small", .run = Bind<&First>(), .accepts = &AcceptsSmall};
constexpr const Kernel* kSmallKernels[] = {&kSmall};

void CountThreads(const Context& ctx, const Tensor& x, const Tensor& y) {
  y.base<std::int64_t>()[0] = ctx.threads;
  y.base<std::int64_t>()[1] = ctx.flags;
  ctx.ParallelFor(x.size(), 1000, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) (void)x.base<const float>()[i];
  });
}
constexpr Kernel kCountThreads{.name = "cpu_f32", .run = Bind<&CountThreads>()};
constexpr const Kernel* kCountThreadsKernels[] = {&kCountThreads};

}  // namespace

extern constinit const Op scatter{
    .signature =
        "scatter(x: f32[t, d], slots: I[t] below s, cache: mut f32[s, d]) -> () where I in i32 | "
        "i64\n"
        "scatter(x: f32[t, d], slots: I[t] below nb*bs, cache: mut f32[nb, bs, d]) -> () "
        "where I in i32 | i64",
    .kernels = kScatterKernels,
};
extern constinit const Op add_index{
    .signature = "add_index(x: dense i64[n], into: mut dense i64[n]) -> ()",
    .kernels = kAddIndexKernels,
};
extern constinit const Op segment_sum{
    .signature =
        "segment_sum(x: dense f32[t], starts: dense I[b+1] offsets t) -> (y: f32[b]) "
        "where I in i32 | i64",
    .kernels = kSegmentSumKernels,
};
extern constinit const Op planned_sum{
    .signature =
        "planned_sum(x: dense f32[t], starts: planned I[b+1] offsets t) -> (y: f32[b]) "
        "where I in i32 | i64",
    .kernels = kSegmentSumKernels,
};
extern constinit const Op planned_first{
    .signature =
        "planned_first(starts: planned i64[b+1] offsets t, x: dense f32[t]) -> (y: f32[b])",
    .kernels = kPlannedFirstKernels,
};
extern constinit const Op planned_twice{
    .signature =
        "planned_twice(x: dense f32[t], starts: planned i64[b+1] offsets t) -> (y: f32[b])",
    .means = "z = planned_sum(x, starts); y = scale(z, 2.0)",
};
extern constinit const Op picked{
    .signature =
        "picked(x: dense f32[n], at: dense i64[k], by: dense i64[k], spare: f32[m]?) -> (y: "
        "f32[k])",
    .kernels = kPickedKernels,
    .check = Bind<&CheckPicked>(),
};
extern constinit const Op picked_twice{
    .signature =
        "picked_twice(x: dense f32[n], at: dense i64[k], by: dense i64[k], spare: f32[m]?) "
        "-> (y: f32[k])",
    .means = "z = picked(x, at, by, spare); y = scale(z, 2.0)",
    .check = Bind<&CheckPicked>(),
};
extern constinit const Op scatter_below{
    .signature =
        "scatter_below(x: f32[t, d], slots: i64[t] below k, cache: mut f32[s, d], k: int) -> ()",
    .means = "scatter(x, slots, cache)",
};
extern constinit const Op even{
    .signature = "even(x: dense f32[n]) -> (y: f32[n])",
    .kernels = kCopyKernels,
    .check = Bind<&CheckEven>(),
};
extern constinit const Op not_negative{
    .signature = "not_negative(x: dense f32[n]) -> (y: f32[n])",
    .kernels = kCopyKernels,
    .check = Bind<&CheckNotNegative>(),
};
extern constinit const Op whole{
    .signature = "whole(x: dense f32[n]) -> (y: f32[n])",
    .kernels = kCopyKernels,
    .check_data = Bind<&CheckWhole>(),
};
extern constinit const Op composed{
    .signature = "composed(x: dense f32[n]) -> (y: f32[n])",
    .means = "z = not_negative(x); y = not_negative(z)",
    .check_data = Bind<&CheckWhole>(),
};
extern constinit const Op maybe{
    .signature = "maybe(x: f32[n], bias: f32[n]?) -> (y: f32[1])",
    .kernels = kMaybeKernels,
};
extern constinit const Op uses_workspace{
    .signature = "uses_workspace(x: f32[..., d], factor: int = 3) -> (y: f32[3])",
    .kernels = kUsesWorkspaceKernels,
};
extern constinit const Op throwing{
    .signature = "throwing(what: int) -> (y: f32[1])",
    .kernels = kThrowKernels,
};
extern constinit const Op spin{
    .signature = "spin(x: f32[n]) -> (y: f32[1])",
    .kernels = kSpinKernels,
};
extern constinit const Op spin_rows{
    .signature = "spin_rows(x: f32[n], starts: i64[r+1] offsets n, times: i32[r]) -> (y: f32[1])",
    .kernels = kSpinRowsKernels,
};
extern constinit const Op small{
    .signature = "small(x: f32[n], k: int) -> (y: f32[1]) where n >= 1",
    .kernels = kSmallKernels,
};
extern constinit const Op count_threads{
    .signature = "count_threads(x: f32[n]) -> (y: i64[2])",
    .kernels = kCountThreadsKernels,
};

}  // namespace anyop::ops
