// SPDX-License-Identifier: Apache-2.0
// Operators for tests of graphs: parts, and compositions of them that have kernels too.
#include "anyop/op.h"

namespace anyop::ops {
namespace {

// f(index of the row, element of each tensor ...) for all elements.
template <class F>
void ForElements(const Context& ctx, const Tensor& z, F&& f) {
  ctx.ForRows(z, [&](std::int64_t r) {
    for (std::size_t i = 0; i < z.row<float>(r).size(); ++i) z.row<float>(r)[i] = f(r, i);
  });
}

void Plus(const Context& ctx, const Tensor& x, const Tensor& y, const Tensor& z) {
  ForElements(ctx, z, [&](std::int64_t r, std::size_t i) {
    return x.row<const float>(r)[i] + y.row<const float>(r)[i];
  });
}
constexpr Kernel kPlus{.name = "cpu_f32", .run = Bind<&Plus>()};
constexpr const Kernel* kPlusKernels[] = {&kPlus};

void Times(const Context& ctx, const Tensor& x, float s, const Tensor& y) {
  ForElements(ctx, y, [&](std::int64_t r, std::size_t i) { return s * x.row<const float>(r)[i]; });
}
constexpr Kernel kTimes{.name = "cpu_f32", .run = Bind<&Times>()};
constexpr const Kernel* kTimesKernels[] = {&kTimes};

void Twice(const Context& ctx, const Tensor& x, const Tensor& y) {
  ForElements(ctx, y, [&](std::int64_t r, std::size_t i) {
    const auto row = x.row<const float>(r);
    return row[i % row.size()];
  });
}
constexpr Kernel kTwice{.name = "cpu_f32", .run = Bind<&Twice>()};
constexpr const Kernel* kTwiceKernels[] = {&kTwice};

// A kernel that fails where its data is wrong.
void Positive(const Context& ctx, const Tensor& x, const Tensor& y) {
  ForElements(ctx, y, [&](std::int64_t r, std::size_t i) {
    const float one = x.row<const float>(r)[i];
    if (one < 0) Refuse("an element is negative.");
    return one;
  });
}
constexpr Kernel kPositive{.name = "cpu_f32", .run = Bind<&Positive>()};
constexpr const Kernel* kPositiveKernels[] = {&kPositive};

void PlusTimes(const Context& ctx, const Tensor& x, const Tensor& y, float s, const Tensor& z,
               const Tensor* sum) {
  ForElements(ctx, z, [&](std::int64_t r, std::size_t i) {
    const float one = x.row<const float>(r)[i] + y.row<const float>(r)[i];
    if (sum) sum->row<float>(r)[i] = one;
    return s * one;
  });
}
constexpr Kernel kPlusTimes{.name = "cpu_f32", .run = Bind<&PlusTimes>()};
constexpr const Kernel* kPlusTimesKernels[] = {&kPlusTimes};

void PlusTimesPlus(const Context& ctx, const Tensor& x, const Tensor& y, float s, const Tensor& z) {
  ForElements(ctx, z, [&](std::int64_t r, std::size_t i) {
    const float xi = x.row<const float>(r)[i];
    return s * (xi + y.row<const float>(r)[i]) + xi;
  });
}
constexpr Kernel kPlusTimesPlus{.name = "cpu_f32", .run = Bind<&PlusTimesPlus>()};
constexpr const Kernel* kPlusTimesPlusKernels[] = {&kPlusTimesPlus};

void TimesBoth(const Context& ctx, const Tensor& x, const Tensor* y, const Tensor& u,
               const Tensor* v) {
  Times(ctx, x, 2, u);
  if (y && v) Times(ctx, *y, float(x.shape[0]), *v);
}
constexpr Kernel kTimesBoth{.name = "cpu_f32", .run = Bind<&TimesBoth>()};
constexpr const Kernel* kTimesBothKernels[] = {&kTimesBoth};

void PlusInto(const Context&, const Tensor& x, const Tensor& into) {
  for (std::int64_t i = 0; i < x.size(); ++i) into.base<float>()[i] += x.base<const float>()[i];
}
constexpr Kernel kPlusInto{.name = "cpu_f32", .run = Bind<&PlusInto>()};
constexpr const Kernel* kPlusIntoKernels[] = {&kPlusInto};

void PlusBothInto(const Context& ctx, const Tensor& x, const Tensor& y, const Tensor& into) {
  PlusInto(ctx, x, into);
  PlusInto(ctx, y, into);
}
constexpr Kernel kPlusBothInto{.name = "cpu_f32", .run = Bind<&PlusBothInto>()};
constexpr const Kernel* kPlusBothIntoKernels[] = {&kPlusBothInto};

void PlusHalves(const Context&, const Tensor& x, const Tensor& y) {
  for (std::int64_t r = 0; r < y.rows(); ++r) {
    const auto from = x.row<const float>(r);
    const auto to = y.row<float>(r);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = 2 * (from[i] + from[i + to.size()]);
  }
}
constexpr Kernel kPlusHalves{.name = "cpu_f32", .run = Bind<&PlusHalves>()};
constexpr const Kernel* kPlusHalvesKernels[] = {&kPlusHalves};

}  // namespace

extern constinit const Op plus{
    .signature = "plus(x: f32[..., d], y: f32[..., d]) -> (z: f32[..., d] over x | y)",
    .commutes = "x, y",
    .kernels = kPlusKernels,
    .rowwise = true,
};
extern constinit const Op times{
    .signature = "times(x: f32[..., d], s: float) -> (y: f32[..., d] over x)",
    .kernels = kTimesKernels,
    .rowwise = true,
};
extern constinit const Op twice{
    .signature = "twice(x: f32[..., d]) -> (y: f32[..., 2*d])",
    .kernels = kTwiceKernels,
    .rowwise = true,
};
extern constinit const Op positive{
    .signature = "positive(x: f32[..., d]) -> (y: f32[..., d] over x)",
    .kernels = kPositiveKernels,
    .rowwise = true,
};
extern constinit const Op plus_times{
    .signature =
        "plus_times(x: f32[..., d], y: f32[..., d], s: float) "
        "-> (z: f32[..., d] over x | y, sum: f32[..., d]?) where d <= 512",
    .means = "sum = plus(x, y); z = times(sum, s)",
    .kernels = kPlusTimesKernels,
};
extern constinit const Op plus_times_plus{
    .signature = "plus_times_plus(x: f32[..., d], y: f32[..., d], s: float) -> (z: f32[..., d])",
    .means = "t = plus(x, y); t = times(t, s); z = plus(t, x)",
    .kernels = kPlusTimesPlusKernels,
};
// Two steps that need nothing of each other, the second one optional, with a size as a number.
extern constinit const Op times_both{
    .signature = "times_both(x: f32[n], y: f32[n]?) -> (u: f32[n], v: f32[n]?) where n >= 1",
    .means = "u = times(x, 2); v = times(y, n)",
    .kernels = kTimesBothKernels,
};
extern constinit const Op plus_into{
    .signature = "plus_into(x: dense f32[n], into: mut dense f32[n]) -> ()",
    .kernels = kPlusIntoKernels,
};
extern constinit const Op plus_both_into{
    .signature = "plus_both_into(x: dense f32[n], y: dense f32[n], into: mut dense f32[n]) -> ()",
    .means = "plus_into(x, into); plus_into(y, into)",
    .kernels = kPlusBothIntoKernels,
};

// With views, so that it is no pattern.
extern constinit const Op plus_halves{
    .signature = "plus_halves(x: f32[m, 2*d]) -> (y: f32[m, d])",
    .means = "a = slice(x, 1, 0, d); b = slice(x, 1, d, 2 * d); t = plus(a, b); y = times(t, 2)",
    .kernels = kPlusHalvesKernels,
};

}  // namespace anyop::ops
