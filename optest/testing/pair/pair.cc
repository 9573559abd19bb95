// SPDX-License-Identifier: Apache-2.0
// needs_both: y = x and z = -x, of which either may be declined; wrong where z is.
//
// Numerics  copies.
// Source    tests of the tests
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor* y, const Tensor* z) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const auto from = x.row<const float>(r);
    for (std::size_t j = 0; j < from.size(); ++j) {
      if (y) y->row<float>(r)[j] = z ? from[j] : 0;
      if (z) z->row<float>(r)[j] = -from[j];
    }
  }
}
constexpr Kernel kF32{.name = "cpu_f32", .run = Bind<&Run>()};
constexpr const Kernel* kKernels[] = {&kF32};

}  // namespace

extern constinit const Op needs_both{
    .signature = "needs_both(x: f32[..., d]) -> (y: f32[..., d]?, z: f32[..., d]?)",
    .kernels = kKernels,
};

}  // namespace anyop::ops
