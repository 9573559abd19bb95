// SPDX-License-Identifier: Apache-2.0
// Compositions with views: one is read after it was written through.
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void AddInto(const Context&, const Tensor& x, const Tensor& into) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const auto from = x.row<const float>(r);
    for (std::size_t j = 0; j < from.size(); ++j) into.row<float>(r)[j] += from[j];
  }
}
constexpr Kernel kAddInto{.name = "cpu_f32", .run = Bind<&AddInto>()};
constexpr const Kernel* kAddIntoKernels[] = {&kAddInto};

}  // namespace

extern constinit const Op add_into{
    .signature = "add_into(x: f32[m, d], into: mut f32[m, d]) -> ()",
    .kernels = kAddIntoKernels,
};
extern constinit const Op views{
    .signature = "views(x: f32[m, 2*d], into: mut f32[m, 2*d]) -> (y: f32[d, m])",
    .means =
        "left = slice(x, 1, 0, d); pairs = reshape(into, [m, 2, d]); "
        "second = slice(pairs, 1, 1, 2); right = reshape(second, [m, d]); "
        "turned = transpose(right, 0, 1); add_into(left, right); y = mul(turned, turned)",
};

}  // namespace anyop::ops
