// SPDX-License-Identifier: Apache-2.0
// lacks_dtype: y = x, for one of the two dtypes that the signature promises.
//
// Numerics  copies.
// Source    tests of the tests
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const auto from = x.row<const float>(r);
    for (std::size_t j = 0; j < from.size(); ++j) y.row<float>(r)[j] = from[j];
  }
}
constexpr Kernel kF32{.name = "cpu_f32", .when = "T == f32", .run = Bind<&Run>()};
constexpr const Kernel* kKernels[] = {&kF32};

}  // namespace

extern constinit const Op lacks_dtype{
    .signature = "lacks_dtype(x: T[..., d]) -> (y: T[..., d]) where T in f32 | bf16",
    .kernels = kKernels,
};

}  // namespace anyop::ops
