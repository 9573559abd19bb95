// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "ops/add_rms_norm/kernel.h"
#include "ops/common/norm/rms_norm_backward.h"

namespace anyop::ops {
namespace {

constexpr SizeText BackwardBytes() { return RowSumsWorkspace<SizeText>("rows(sum)", "d").bytes(); }

// Without dy the norm has no part in the gradient: dx = dresidual = dsum, or 0.
template <class T>
void PassSum(const Context& ctx, const Tensor& sum, const Tensor* dsum, const Tensor* to) {
  if (!to) return;
  ctx.ForRows(
      sum,
      [&](std::int64_t r) {
        const std::size_t bytes = std::size_t(sum.row_size()) * sizeof(T);
        T* row = to->row<T>(r).data();
        if (dsum) {
          std::memcpy(row, dsum->row<const T>(r).data(), bytes);
        } else {
          std::memset(row, 0, bytes);
        }
      },
      0.05);
}

void RunBackward(const Context& ctx, const Tensor* dy, const Tensor* dsum, const Tensor& sum,
                 const Tensor* weight, float eps, float weight_offset, const Tensor* dx,
                 const Tensor* dresidual, const Tensor* dweight) {
  VisitFloat(sum.type(), [&](auto zero) {
    using T = decltype(zero);
    if (dy) {
      const NormTensors tensors{*dy, sum, weight, dsum, dx, dresidual, dweight};
      return RmsNormBackward<T>(ctx, tensors, eps, weight_offset);
    }
    PassSum<T>(ctx, sum, dsum, dx);
    PassSum<T>(ctx, sum, dsum, dresidual);
    if (dweight) std::memset(dweight->base<T>(), 0, std::size_t(dweight->size()) * sizeof(T));
  });
}

}  // namespace

ANYOP_KERNEL(add_rms_norm){.run = Bind<&Run>()};
ANYOP_KERNEL(add_rms_norm_backward){.workspace = kWorkspace<&BackwardBytes>,
                                    .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
