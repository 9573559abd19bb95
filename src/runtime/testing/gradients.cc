// SPDX-License-Identifier: Apache-2.0
// An operator with a gradient, for the tests of their wiring: y = s*x + b, where b may be absent.
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Affine(const Context&, const Tensor& x, float s, const Tensor* b, const Tensor& y) {
  for (std::int64_t i = 0; i < x.size(); ++i) {
    y.base<float>()[i] = s * x.base<const float>()[i] + (b ? b->base<const float>()[i] : 0);
  }
}
void AffineBackward(const Context&, const Tensor& dy, float s, const Tensor*, const Tensor& y,
                    const Tensor* dx, const Tensor* db) {
  for (std::int64_t i = 0; i < y.size(); ++i) {
    if (dx) dx->base<float>()[i] = s * dy.base<const float>()[i];
    if (db) db->base<float>()[i] = dy.base<const float>()[i];
  }
}
constexpr Kernel kAffine{.name = "cpu_f32", .run = Bind<&Affine>()};
constexpr const Kernel* kAffineKernels[] = {&kAffine};
constexpr Kernel kAffineBackward{.name = "cpu_f32", .run = Bind<&AffineBackward>()};
constexpr const Kernel* kAffineBackwardKernels[] = {&kAffineBackward};

}  // namespace

extern constinit const Op affine{
    .signature = "affine(x: dense f32[n], s: float, b: dense f32[n]?) -> (y: f32[n])",
    .gradient = "affine_backward",
    .kernels = kAffineKernels,
};
extern constinit const Op affine_backward{
    .signature =
        "affine_backward(dy: dense f32[n], s: float, b: dense f32[n]?, y: dense f32[n]) "
        "-> (dx: f32[n]?, db: f32[n]?)",
    .kernels = kAffineBackwardKernels,
};

}  // namespace anyop::ops
