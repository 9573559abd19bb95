// SPDX-License-Identifier: Apache-2.0
// The kernel, for every instruction set: F32 is as wide as the file is compiled for.
#include "anyop/op.h"
#include "anyop/simd.h"

namespace anyop::ops {
namespace {

template <class T>
void RunAs(const Context& ctx, const Tensor& x, const Tensor& y) {
  ctx.ForRows(x, [&](std::int64_t r) {
    const T* xr = x.row<const T>(r).data();  // [d]
    F32 sums = Zero();
    ForLanes(x.row_size(), [&](std::int64_t i, auto count) {
      const F32 v = LoadN(xr + i, count);  // lanes beyond count are 0
      sums = sums + v * v;
    });
    y.row<T>(r)[0] = T(ReduceAdd(sums) / float(x.row_size()));
  });
}

// The parameters of the signature, then the results.
void Run(const Context& ctx, const Tensor& x, const Tensor& y) {
  switch (x.type()) {
    case DType::kF32:
      return RunAs<float>(ctx, x, y);
    case DType::kF16:
      return RunAs<F16>(ctx, x, y);
    default:
      return RunAs<BF16>(ctx, x, y);
  }
}

}  // namespace

ANYOP_KERNEL(my_operator){.run = Bind<&Run>()};

}  // namespace anyop::ops
