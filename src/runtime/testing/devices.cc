// SPDX-License-Identifier: Apache-2.0
// Operators for tests of calls on a device: what a kernel there is given, kernels of a device.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "anyop/device.h"
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Copy(const Context&, const Tensor& x, const Tensor& y) {
  std::copy_n(x.base<const float>(), x.size(), y.base<float>());
}

// spell: the number of bytes up to the NUL behind the word.
int Spell(const anyop_context*, const anyop_value* frame) {
  const auto& y = *static_cast<const Tensor*>(frame[2].t);
  *y.base<float>() = float(std::strlen(frame[1].s));
  return ANYOP_OK;
}
constexpr Kernel kSpell{.name = "cpu_f32", .run = {&Spell, "twt"}};
constexpr const Kernel* kSpellKernels[] = {&kSpell};

// numbers: y = x * (sum of of) + (sum of with).
void Numbers(const Context&, const Tensor& x, std::span<const std::int64_t> of,
             std::span<const double> with, const Tensor& y) {
  const double a = double(std::accumulate(of.begin(), of.end(), std::int64_t{0}));
  const double b = std::accumulate(with.begin(), with.end(), 0.0);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    y.base<float>()[i] = float(x.base<const float>()[i] * a + b);
  }
}
constexpr Kernel kNumbers{.name = "cpu_f32", .run = Bind<&Numbers>()};
constexpr const Kernel* kNumbersKernels[] = {&kNumbers};

void Scheduled(const Context& ctx, const Tensor& x, const Tensor&, const Tensor&, const Tensor& y) {
  Copy(ctx, x, y);
}
constexpr Kernel kScheduled{.name = "cpu_f32", .run = Bind<&Scheduled>()};
constexpr const Kernel* kScheduledKernels[] = {&kScheduled};

// add_bits: z = i32(x) + bits.
void AddBits(const Context&, const Tensor& x, const Tensor& bits, const Tensor& z) {
  for (std::int64_t i = 0; i < x.size(); ++i) {
    z.base<std::int32_t>()[i] =
        std::int32_t(x.base<const float>()[i]) + bits.base<const std::int32_t>()[i];
  }
}
constexpr Kernel kAddBits{.name = "cpu_f32", .run = Bind<&AddBits>()};
constexpr const Kernel* kAddBitsKernels[] = {&kAddBits};

// ramp: y[i, j] = i + j.
void Ramp(const Context&, std::int64_t, std::int64_t, const Tensor& y) {
  for (std::int64_t i = 0; i < y.dim(0); ++i) {
    for (std::int64_t j = 0; j < y.dim(1); ++j) y.base<float>()[i * y.dim(1) + j] = float(i + j);
  }
}
constexpr Kernel kRamp{.name = "cpu_f32", .run = Bind<&Ramp>()};
constexpr const Kernel* kRampKernels[] = {&kRamp};

constexpr Kernel kEvenCopy{.name = "cpu_f32", .when = "n % 2 == 0", .run = Bind<&Copy>()};
constexpr const Kernel* kEvenCopyKernels[] = {&kEvenCopy};

constexpr Kernel kFarCopy{.name = "far_copy", .needs = "", .run = Bind<&Copy>()};
constexpr const Kernel* kFarCopyKernels[] = {&kFarCopy};

// Says which kernel ran.
template <int kWhich>
void Which(const Context&, const Tensor&, const Tensor& y) {
  *y.base<float>() = kWhich;
}
constexpr Kernel kFar{.name = "far_fast", .needs = "fast", .run = Bind<&Which<1>>()};
constexpr Kernel kHost{.name = "cpu_f32", .needs = "", .run = Bind<&Which<2>>()};
constexpr const Kernel* kFeaturedKernels[] = {&kFar, &kHost};

// A kernel that starts its work itself, and has none. It says what it was given where it is asked.
void Launched(const Context& ctx, const Tensor& x, const Tensor* ids, bool tells, const Tensor& y) {
  if (!tells) return;
  const auto& run = *static_cast<const anyop_device_run*>(ctx.runtime);
  const auto show = [](const void* p) {
    return std::to_string(reinterpret_cast<std::uintptr_t>(p));
  };
  int ran = 0;
  ctx.ParallelFor(100, 1, [&](std::int64_t begin, std::int64_t end) { ran += int(end - begin); });
  Refuse("stream " + show(ctx.stream) + ", device " + std::to_string(run.device) + ", failed " +
         show(run.failed) + ", workspace " + show(ctx.workspace) + ", x " +
         show(x.base<const char>()) + ", ids " + show(ids ? ids->base<const char>() : nullptr) +
         ", y " + show(y.base<char>()) + ", ran " + std::to_string(ran) +
         (ctx.host->log ? "" : ", without a log"));
}
void CheckFirst(const Context&, const Tensor& ids, const TensorShape&) {
  if (ReadIndex(ids, 0) == 5) Refuse("ids[0] is 5.");
}
void Nothing(const Context&, const Tensor&, const Tensor&, const Tensor&) {}
constexpr Kernel kNothing{.name = "far_launched", .needs = "", .run = Bind<&Nothing>()};
constexpr const Kernel* kNothingKernels[] = {&kNothing};

void Bounded(const Context&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {}
constexpr Kernel kBounded{.name = "far_launched", .needs = "", .run = Bind<&Bounded>()};
constexpr const Kernel* kBoundedKernels[] = {&kBounded};

constexpr Kernel kLaunched{
    .name = "far_launched", .needs = "", .workspace = "64", .run = Bind<&Launched>()};
constexpr const Kernel* kLaunchedKernels[] = {&kLaunched};

}  // namespace

extern constinit const Op spell{
    .signature = "spell(x: f32[n], word: 'absolute' | 'relative' = 'absolute') -> (y: f32[1])",
    .kernels = kSpellKernels,
};
extern constinit const Op numbers{
    .signature = "numbers(x: dense f32[n], of: int[], with_: float[]) -> (y: f32[n])",
    .kernels = kNumbersKernels,
};
extern constinit const Op scheduled{
    .signature =
        "scheduled(x: dense f32[n], first: planned i64[m], second: planned i64[k]) -> (y: f32[n])",
    .kernels = kScheduledKernels,
};
extern constinit const Op add_bits{
    .signature = "add_bits(x: dense f32[n], bits: dense i32[n]) -> (z: i32[n])",
    .kernels = kAddBitsKernels,
};
extern constinit const Op ramp{
    .signature = "ramp(n: int, d: int) -> (y: f32[n, d])",
    .kernels = kRampKernels,
};
extern constinit const Op add_ramp{
    .signature = "add_ramp(x: f32[n, d]) -> (y: f32[n, d])",
    .means = "r = ramp(n, d); y = axpy(1.0, x, r)",
};
extern constinit const Op even_or_means{
    .signature = "even_or_means(x: dense f32[n]) -> (y: f32[n])",
    .means = "y = scale(x, 1.0)",
    .kernels = kEvenCopyKernels,
};
extern constinit const Op far_or_means{
    .signature = "far_or_means(x: dense f32[n]) -> (y: f32[n])",
    .means = "t = scale(x, 2.0); y = scale(t, 0.5)",
    .kernels = kFarCopyKernels,
};
extern constinit const Op host_or_means{
    .signature = "host_or_means(x: dense f32[n]) -> (y: f32[n])",
    .means = "y = far_or_means(x)",
    .kernels = kEvenCopyKernels,
};
extern constinit const Op scatter_means{
    .signature = "scatter_means(x: f32[t, d], slots: i64[t] below s, cache: mut f32[s, d]) -> ()",
    .means = "scatter(x, slots, cache)",
};
extern constinit const Op featured{
    .signature = "featured(x: f32[n]) -> (y: f32[1])",
    .kernels = kFeaturedKernels,
};
extern constinit const Op launched{
    .signature =
        "launched(x: dense f32[n], ids: dense i64[k]? below n, tells: bool) -> (y: f32[n])",
    .kernels = kLaunchedKernels,
};

extern constinit const Op launched_bounded{
    .signature =
        "launched_bounded(x: dense f32[n], starts: dense i64[b+1] offsets n, "
        "order: planned i64[b+1] offsets n) -> (y: f32[n])",
    .kernels = kBoundedKernels,
};
extern constinit const Op launched_checked{
    .signature = "launched_checked(ids: dense i64[k] below n, x: dense f32[n]) -> (y: f32[n])",
    .kernels = kNothingKernels,
    .check = Bind<&CheckFirst>(),
};

}  // namespace anyop::ops
