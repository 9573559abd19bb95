// SPDX-License-Identifier: Apache-2.0
// describe: what a kernel receives, one number per argument.
//
// Operators that show the Python host's side of a call; a library for its tests.

#include <algorithm>
#include <chrono>
#include <thread>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Describe(const Context&, std::int64_t n, double f, bool b, std::string_view word, DType to,
              std::span<const std::int64_t> sizes, std::optional<std::span<const double>> gains,
              const Tensor& y) {
  double* v = y.base<double>();
  v[0] = double(n);
  v[1] = f;
  v[2] = b;
  v[3] = word == "red" ? 1 : word == "green" ? 2 : 3;
  v[4] = double(int(to));
  v[5] = 0;
  for (const std::int64_t size : sizes) v[5] = v[5] * 10 + double(size);
  v[6] = gains ? 0 : -1;
  if (gains) {
    for (const double gain : *gains) v[6] += gain;
  }
}
constexpr Kernel kDescribe{.name = "cpu", .run = Bind<&Describe>()};
constexpr const Kernel* kDescribeKernels[] = {&kDescribe};

void Total(const Context&, std::span<const Tensor* const> xs, const Tensor& y) {
  for (std::int64_t i = 0; i < y.dim(0); ++i) {
    float sum = 0;
    for (const Tensor* x : xs) sum += x->base<float>()[i];
    y.base<float>()[i] = sum;
  }
}
constexpr Kernel kTotal{.name = "cpu", .run = Bind<&Total>()};
constexpr const Kernel* kTotalKernels[] = {&kTotal};

void Bump(const Context&, std::span<const Tensor* const> xs, const Tensor* more) {
  for (const Tensor* x : xs) x->base<float>()[0] += 1;
  if (more) more->base<float>()[0] += 1;
}
constexpr Kernel kBump{.name = "cpu", .run = Bind<&Bump>()};
constexpr const Kernel* kBumpKernels[] = {&kBump};

void Halves(const Context&, const Tensor& x, const Tensor& low, const Tensor& high) {
  const std::int64_t n = low.dim(0);
  for (std::int64_t i = 0; i < n; ++i) {
    low.base<float>()[i] = x.base<const float>()[i];
    high.base<float>()[i] = x.base<const float>()[n + i];
  }
}
constexpr Kernel kHalves{.name = "cpu", .run = Bind<&Halves>()};
constexpr const Kernel* kHalvesKernels[] = {&kHalves};

void Gradient(const Context&, const Tensor& dy, const Tensor&, const Tensor* w, const Tensor* dx,
              const Tensor* dw) {
  for (std::int64_t i = 0; i < dy.dim(0); ++i) {
    if (dx) dx->base<float>()[i] = dy.base<const float>()[i];
    if (dw) dw->base<float>()[i] = w ? w->base<const float>()[i] : 0;
  }
}
constexpr Kernel kGradient{.name = "cpu", .run = Bind<&Gradient>()};
constexpr const Kernel* kGradientKernels[] = {&kGradient};

void CopyRows(const Tensor& x, const Tensor& y) {
  for (std::int64_t i = 0; i < x.dim(0); ++i) {
    std::copy_n(x.base<const float>() + i * x.stride(0), x.dim(1),
                y.base<float>() + i * y.stride(0));
  }
}

void Wait(const Context&, const Tensor& x, const Tensor& y) {
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CopyRows(x, y);
}
constexpr Kernel kWait{.name = "cpu", .run = Bind<&Wait>()};
constexpr const Kernel* kWaitKernels[] = {&kWait};

void Everything(const Context&, const Tensor& x, std::span<const Tensor* const> xs, std::int64_t n,
                double f, std::span<const std::int64_t> sizes, std::span<const double> gains,
                const Tensor& y, const Tensor& total) {
  CopyRows(x, y);
  double sum = double(n) + f;
  for (const std::int64_t size : sizes) sum += double(size);
  for (const double gain : gains) sum += gain;
  for (const Tensor* one : xs) {
    for (std::int64_t i = 0; i < one->dim(0); ++i) sum += one->base<const float>()[i];
  }
  total.base<double>()[0] = sum;
}
constexpr Kernel kEverything{.name = "cpu", .run = Bind<&Everything>()};
constexpr const Kernel* kEverythingKernels[] = {&kEverything};

void Copy(const Context&, const Tensor& x, const Tensor& y) {
  std::copy_n(x.base<const char>(), x.size() * Bytes(x.type()), y.base<char>());
}
constexpr Kernel kCopy{.name = "cpu", .run = Bind<&Copy>()};
constexpr const Kernel* kCopyKernels[] = {&kCopy};

// How many tensors, or -1; the dtype, or -1; whether a word; the limit; the length of x.
void Optional(const Context&, const Tensor& x, std::optional<std::span<const Tensor* const>> xs,
              std::optional<DType> to, std::string_view word, double most, const Tensor& y) {
  double* out = y.base<double>();
  out[0] = xs ? double(xs->size()) : -1;
  out[1] = to ? double(int(*to)) : -1;
  out[2] = double(word.size());
  out[3] = most;
  out[4] = double(x.size());
}
constexpr Kernel kOptional{.name = "cpu", .run = Bind<&Optional>()};
constexpr const Kernel* kOptionalKernels[] = {&kOptional};

// Two kernels of which the second does a hundredth of the work; y tells which one ran.
template <int kRounds>
void Either(const Context&, const Tensor& x, const Tensor& y) {
  volatile int sum = 0;
  for (int k = 0; k < kRounds; ++k) {
    for (std::int64_t i = 0; i < x.size() * Bytes(x.type()); ++i)
      sum = sum + x.base<const char>()[i];
  }
  *y.base<float>() = kRounds;
}
constexpr Kernel kSlow{.name = "cpu_slow", .run = Bind<&Either<100>>(), .probe = "n = 64"};
constexpr Kernel kFast{.name = "cpu_fast", .run = Bind<&Either<1>>(), .probe = "n = 64"};
constexpr const Kernel* kEitherKernels[] = {&kSlow, &kFast};

}  // namespace

extern constinit const Op describe{
    .signature =
        "describe(n: int = 1, f: float = 0.5, b: bool = False, w: 'red' | 'green' = 'red', "
        "to: dtype = f32, sizes: int[] = [1, 2], gains: float[]?) -> (y: f64[7])",
    .kernels = kDescribeKernels,
};
extern constinit const Op total{
    .signature = "total(xs: f32[n]*) -> (y: f32[n])",
    .kernels = kTotalKernels,
};
extern constinit const Op bump{
    .signature = "bump(xs: mut f32[n]*, more: mut f32[n]?) -> ()",
    .kernels = kBumpKernels,
};
extern constinit const Op halves{
    .signature = "halves(x: f32[2*n]) -> (low: f32[n], high: f32[n])",
    .kernels = kHalvesKernels,
};
extern constinit const Op gradient{
    .signature = "gradient(dy: f32[n], x: f32[n], w: f32[n]?) -> (dx: f32[n]?, dw: f32[n]?)",
    .kernels = kGradientKernels,
};
extern constinit const Op wait{
    .signature = "wait(x: f32[a, b]) -> (y: f32[a, b])",
    .flops = "1000000000",
    .kernels = kWaitKernels,
};
extern constinit const Op everything{
    .signature =
        "everything(x: f32[a, b], xs: f32[c]*, n: int = 0, f: float = 0.0, sizes: int[] = "
        "[], gains: float[] = []) -> (y: f32[a, b], total: f64[])",
    .kernels = kEverythingKernels,
};
extern constinit const Op copy{
    .signature =
        "copy(x: dense T[...]) -> (y: T[...]) where T in f64 | f32 | f16 | bf16 | f8e4m3 | "
        "f8e5m2 | i64 | i32 | i16 | i8 | u8 | bool | u16 | u32 | u64 | c64 | c128 | f8e8m0 | "
        "f8e4m3fnuz | f8e5m2fnuz | f4e2m1x2",
    .kernels = kCopyKernels,
};
extern constinit const Op optional{
    .signature =
        "optional(x: f32[a], xs: f32[n]*?, to: dtype?, word: '' | 'b' = '', most: float = inf) -> "
        "(y: f64[5])",
    .kernels = kOptionalKernels,
};
extern constinit const Op either{
    .signature = "either(x: T[n]) -> (y: f32[1]) where T in f32 | f64",
    .kernels = kEitherKernels,
};

}  // namespace anyop::ops
