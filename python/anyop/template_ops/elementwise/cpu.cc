// SPDX-License-Identifier: Apache-2.0
// The kernel, for every instruction set: F32 is as wide as the file is compiled for.
#include "anyop/op.h"
#include "anyop/simd.h"

namespace anyop::ops {
namespace {

template <class T>
void RunAs(const Context& ctx, const Tensor& x, const Tensor& gate, const Tensor* bias, float scale,
           const Tensor& y) {
  const T* b = bias ? bias->base<const T>() : nullptr;  // [d]
  ctx.ForRows(x, [&](std::int64_t r) {
    const T* xr = x.row<const T>(r).data();     // [d]
    const T* gr = gate.row<const T>(r).data();  // [d]
    T* yr = y.row<T>(r).data();                 // [d]
    ForLanes(x.row_size(), [&](std::int64_t i, auto count) {
      F32 v = LoadN(xr + i, count) * LoadN(gr + i, count) * Set(scale);
      if (b) v = v + LoadN(b + i, count);
      StoreN(yr + i, v, count);
    });
  });
}

// The parameters of the signature, then the results. A parameter with `?` is a pointer.
void Run(const Context& ctx, const Tensor& x, const Tensor& gate, const Tensor* bias, float scale,
         const Tensor& y) {
  switch (x.type()) {
    case DType::kF32:
      return RunAs<float>(ctx, x, gate, bias, scale, y);
    case DType::kF16:
      return RunAs<F16>(ctx, x, gate, bias, scale, y);
    default:
      return RunAs<BF16>(ctx, x, gate, bias, scale, y);
  }
}

}  // namespace

ANYOP_KERNEL(my_operator){.run = Bind<&Run>()};

}  // namespace anyop::ops
