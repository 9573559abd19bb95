// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"
#include "ops/common/selection/largest.h"

namespace anyop::ops {
namespace {

template <class T>
void ArgmaxRows(const Context& ctx, const Tensor& x, const Tensor& index) {
  // Index lacks the last dimension of x: its rows may be split over several dimensions of x.
  const std::int64_t per_row = index.row_size(), d = x.row_size();
  const auto run = [&](std::int64_t r) {
    const std::int64_t at = index.row_offset(r / per_row) + r % per_row;
    index.base<std::int64_t>()[at] = FirstLargest(x.base<const T>() + x.row_offset(r), d);
  };
  ctx.ForRows(x, run, 0.05);
}

void RunArgmax(const Context& ctx, const Tensor& x, const Tensor& index) {
  switch (x.type()) {
    case DType::kF32:
      return ArgmaxRows<float>(ctx, x, index);
    case DType::kF16:
      return ArgmaxRows<F16>(ctx, x, index);
    default:
      return ArgmaxRows<BF16>(ctx, x, index);
  }
}

}  // namespace

ANYOP_KERNEL(argmax){.run = Bind<&RunArgmax>()};

}  // namespace anyop::ops
