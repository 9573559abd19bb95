// SPDX-License-Identifier: Apache-2.0
// cross: the difference of two products, which may be nearly equal.
//
//   y[i, j] = a[i, j] * b[i, j] - c[i, j] * e[i, j]
//
// Numerics  f32, three roundings.
// Source    tests of the tests
#include "anyop/op.h"

namespace anyop::ops {
namespace {

template <int kMillionths>
void RunCross(const Context& ctx, const Tensor& a, const Tensor& b, const Tensor& c,
              const Tensor& e, const Tensor& y) {
  constexpr float kFactor = 1 + kMillionths * 1e-6f;
  ctx.ForRows(a, [&](std::int64_t r) {
    for (std::size_t j = 0; j < std::size_t(a.row_size()); ++j) {
      y.row<float>(r)[j] = a.row<const float>(r)[j] * b.row<const float>(r)[j] * kFactor -
                           c.row<const float>(r)[j] * e.row<const float>(r)[j];
    }
  });
}

template <int kMillionths>
void RunCentred(const Context& ctx, const Tensor& x, const Tensor& y) {
  ctx.ForRows(x, [&](std::int64_t r) {
    float sum = 0;
    for (const float value : x.row<const float>(r)) sum += value;
    const float mean = sum / float(x.row_size()) * (1 + kMillionths * 1e-6f);
    for (std::size_t j = 0; j < std::size_t(x.row_size()); ++j) {
      y.row<float>(r)[j] = x.row<const float>(r)[j] - mean;
    }
  });
}

template <auto kRun>
struct Kernels {
  static constexpr Kernel kF32{.name = "cpu_f32", .run = Bind<kRun>()};
  static constexpr const Kernel* kAll[] = {&kF32};
};

}  // namespace

#define CROSS(name) \
  name "(a: f32[..., d], b: f32[..., d], c: f32[..., d], e: f32[..., d]) -> (y: f32[..., d])"
#define CENTRED(name) name "(x: f32[..., d]) -> (y: f32[..., d]) where d >= 1"

extern constinit const Op cross{.signature = CROSS("cross"),
                                .kernels = Kernels<&RunCross<0>>::kAll};
extern constinit const Op cross_off{.signature = CROSS("cross_off"),
                                    .kernels = Kernels<&RunCross<100>>::kAll};
extern constinit const Op centred{.signature = CENTRED("centred"),
                                  .kernels = Kernels<&RunCentred<0>>::kAll};
extern constinit const Op centred_off{.signature = CENTRED("centred_off"),
                                      .kernels = Kernels<&RunCentred<1000>>::kAll};

}  // namespace anyop::ops
