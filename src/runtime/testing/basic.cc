// SPDX-License-Identifier: Apache-2.0
// Operators for the runtime's tests: kernels to choose from, compositions, forms, lists.
#include <algorithm>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

// axpy: z = a*x + y. Several kernels, so that each reason to decline one occurs.
template <class T>
void Axpy(const Context&, float a, const Tensor& x, const Tensor& y, const Tensor& z) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const auto xr = x.row<const T>(r), yr = y.row<const T>(r);
    const auto zr = z.row<T>(r);
    for (std::size_t i = 0; i < xr.size(); ++i) zr[i] = T(a) * xr[i] + yr[i];
  }
}
constexpr Kernel kAxpyAlien{
    .name = "cpu_alien", .needs = "no_such_feature", .run = Bind<&Axpy<float>>()};
constexpr Kernel kAxpyWide{
    .name = "cpu_wide_f32", .when = "T == f32, d % 16 == 0", .run = Bind<&Axpy<float>>()};
constexpr Kernel kAxpyF32{.name = "cpu_f32", .when = "T == f32", .run = Bind<&Axpy<float>>()};
constexpr Kernel kAxpyF64{.name = "cpu_f64", .when = "T == f64", .run = Bind<&Axpy<double>>()};
constexpr const Kernel* kAxpyKernels[] = {nullptr, &kAxpyAlien, &kAxpyWide, &kAxpyF32, &kAxpyF64};

// scale: y = s*x.
void Scale(const Context&, const Tensor& x, double s, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const auto xr = x.row<const float>(r);
    const auto yr = y.row<float>(r);
    for (std::size_t i = 0; i < xr.size(); ++i) yr[i] = float(s) * xr[i];
  }
}
constexpr Kernel kScale{.name = "cpu_f32", .run = Bind<&Scale>()};
constexpr const Kernel* kScaleKernels[] = {&kScale};

void Accumulate(const Context&, const Tensor& x, const Tensor& into) {
  for (std::int64_t i = 0; i < x.size(); ++i) into.base<float>()[i] += x.base<const float>()[i];
}
constexpr Kernel kAccumulate{.name = "cpu_f32", .run = Bind<&Accumulate>()};
constexpr const Kernel* kAccumulateKernels[] = {&kAccumulate};

void Concat(const Context&, std::span<const Tensor* const> parts, const Tensor& y) {
  float* to = y.base<float>();
  for (const Tensor* p : parts) to = std::copy_n(p->base<const float>(), p->size(), to);
}
constexpr Kernel kConcat{.name = "cpu_f32", .run = Bind<&Concat>()};
constexpr const Kernel* kConcatKernels[] = {&kConcat};

void Extremes(const Context&, const Tensor& x, const Tensor* low, const Tensor* high) {
  const auto xr = x.row<const float>(0);
  if (low) *low->base<float>() = *std::min_element(xr.begin(), xr.end());
  if (high) *high->base<float>() = *std::max_element(xr.begin(), xr.end());
}
constexpr Kernel kExtremes{.name = "cpu_f32", .run = Bind<&Extremes>()};
constexpr const Kernel* kExtremesKernels[] = {&kExtremes};

void Pick(const Context&, const Tensor& x, std::string_view which, const Tensor& y) {
  const auto xr = x.row<const float>(0);
  *y.base<float>() = which == "first" ? xr.front() : xr.back();
}
constexpr Kernel kPick{.name = "cpu_f32", .run = Bind<&Pick>()};
constexpr const Kernel* kPickKernels[] = {&kPick};

void Flatten(const Context&, const Tensor& x, const Tensor& y) {
  std::copy_n(x.base<const float>(), x.size(), y.base<float>());
}
constexpr Kernel kFlatten{.name = "cpu_f32", .run = Bind<&Flatten>()};
constexpr const Kernel* kFlattenKernels[] = {&kFlatten};

void EveryOther(const Context&, const Tensor& x, const Tensor& y) {
  for (std::int64_t i = 0; i < x.size(); i += 2) {
    y.base<float>()[i / 2] = x.base<const float>()[i];
  }
}
constexpr Kernel kEveryOther{.name = "cpu_f32", .run = Bind<&EveryOther>()};
constexpr const Kernel* kEveryOtherKernels[] = {&kEveryOther};

// weigh: y = x * w; packed weights are w twice over, so that a test sees which of the two ran.
void Weigh(const Context&, const Tensor& x, const Tensor& w, const Tensor& y) {
  for (std::int64_t i = 0; i < x.size(); ++i) {
    y.base<float>()[i] = x.base<const float>()[i] * w.base<const float>()[i % w.size()];
  }
}
void PackWeight(const Context&, const Tensor& w, const Tensor& packed) {
  for (int k = 0; k < 2; ++k)
    std::copy_n(w.base<const float>(), w.size(), packed.base<float>() + k * w.size());
}
void WeighPacked(const Context&, const Tensor& x, const Tensor& packed, std::int64_t n,
                 const Tensor& y) {
  for (std::int64_t i = 0; i < x.size(); ++i) {
    y.base<float>()[i] = x.base<const float>()[i] * packed.base<const float>()[n + i % n];
  }
}
constexpr Kernel kWeigh{.name = "cpu_f32", .run = Bind<&Weigh>()};
constexpr const Kernel* kWeighKernels[] = {&kWeigh};
constexpr Kernel kPackWeight{.name = "cpu_f32", .run = Bind<&PackWeight>()};
constexpr const Kernel* kPackWeightKernels[] = {&kPackWeight};
constexpr Kernel kWeighPacked{.name = "cpu_f32", .run = Bind<&WeighPacked>()};
constexpr const Kernel* kWeighPackedKernels[] = {&kWeighPacked};

}  // namespace

extern constinit const Op weigh{
    .signature = "weigh(x: dense f32[m, n], w: dense f32[n]) -> (y: f32[m, n])",
    .prepack = "packed = pack_weight(w); y = weigh_packed(x, packed, n)",
    .kernels = kWeighKernels,
};
extern constinit const Op pack_weight{
    .signature = "pack_weight(w: dense f32[n]) -> (packed: f32[2, n])",
    .kernels = kPackWeightKernels,
};
extern constinit const Op weigh_packed{
    .signature =
        "weigh_packed(x: dense f32[m, n], packed: dense f32[2, n], n_weights: int) "
        "-> (y: f32[m, n]) where n_weights == n",
    .kernels = kWeighPackedKernels,
};
extern constinit const Op axpy{
    .signature =
        "axpy(a: float, x: T[..., d], y: T[..., d]) -> (z: T[..., d] over x | y) "
        "where T in f32 | f64",
    .flops = "2 * size(x)",
    .kernels = kAxpyKernels,
    .rowwise = true,
};
extern constinit const Op scale{
    .signature = "scale(x: T[..., d], s: float) -> (y: T[..., d] over x) where T in f32, s < 1e30",
    .kernels = kScaleKernels,
    .rowwise = true,
};
extern constinit const Op accumulate{
    .signature = "accumulate(x: dense f32[...], into: mut dense f32[...]) -> ()",
    .kernels = kAccumulateKernels,
};
extern constinit const Op concat{
    .signature = "concat(parts: dense f32[n]*) -> (y: f32[len(parts)*n])",
    .kernels = kConcatKernels,
};
extern constinit const Op extremes{
    .signature = "extremes(x: f32[n]) -> (low: f32[1]?, high: f32[1]?) where n >= 1",
    .kernels = kExtremesKernels,
};
extern constinit const Op pick{
    .signature = "pick(x: f32[n], which: 'first' | 'last' = 'first') -> (y: f32[1]) where n >= 1",
    .kernels = kPickKernels,
};
extern constinit const Op flatten{
    .signature = "flatten(x: dense f32[a, b]) -> (y: f32[a*b])",
    .kernels = kFlattenKernels,
};
extern constinit const Op every_other{
    .signature = "every_other(x: dense f32[n]) -> (y: f32[ceil_div(n, 2)])",
    .kernels = kEveryOtherKernels,
};
// No kernel of its own.
extern constinit const Op scaled_sum{
    .signature =
        "scaled_sum(x: T[..., d], r: T[..., d], s: float) "
        "-> (sum: T[..., d] over x | r, y: T[..., d] over x | r) where T in f32",
    .means = "sum = axpy(1.0, x, r); y = scale(sum, s)",
};
extern constinit const Op add_twice{
    .signature = "add_twice(x: f32[n], bias: f32[n]?, into: mut f32[n]) -> ()",
    .means = "accumulate(x, into); accumulate(bias, into)",
};

}  // namespace anyop::ops
