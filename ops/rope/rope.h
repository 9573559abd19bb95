// SPDX-License-Identifier: Apache-2.0
// The kernels of rope and its gradient, compiled once per instruction set.
#pragma once
#include "ops/common/rotation/rotation.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Copies elements [begin, end) of every head.
template <class T>
void CopyHeads(const Heads<T>& x, std::int64_t begin, std::int64_t end) {
  if (begin == end) return;
  for (std::int64_t h = 0; h < x.heads; ++h) {
    std::memmove(x.to + h * x.to_stride + begin, x.from + h * x.from_stride + begin,
                 std::size_t(end - begin) * sizeof(T));
  }
}

template <class T>
void RopeTokens(const Context& ctx, const Rotation& rotation, const Tensor& x, const Tensor& y) {
  const std::int64_t d = x.dim(2), begin = rotation.offset(), end = begin + rotation.width();
  const auto run = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t row = rotation.row(i);
      const Heads<T> heads = HeadsOf<T>(x, y, i);
      if (row < 0) {
        CopyHeads(heads, 0, d);
      } else {
        CopyHeads(heads, 0, begin);
        CopyHeads(heads, end, d);
        rotation.Apply(row, heads);
      }
    }
  };
  ctx.ParallelFor(x.dim(0), TokenGrain(x.dim(1) * d), run);
}

inline void RunRope(const Context& ctx, const Tensor& x, const Tensor* positions,
                    const Tensor& cos_sin_cache, std::int64_t offset, std::string_view style,
                    bool inverse, const Tensor& y) {
  const Rotation rotation(positions, cos_sin_cache, offset, style, inverse);
  switch (x.type()) {
    case DType::kF32:
      return RopeTokens<float>(ctx, rotation, x, y);
    case DType::kF16:
      return RopeTokens<F16>(ctx, rotation, x, y);
    default:
      return RopeTokens<BF16>(ctx, rotation, x, y);
  }
}

// The transpose of a rotation is the rotation back.
inline void RunRopeBackward(const Context& ctx, const Tensor& dy, const Tensor* positions,
                            const Tensor& cos_sin_cache, std::int64_t offset,
                            std::string_view style, bool inverse, const Tensor* dx) {
  if (dx) RunRope(ctx, dy, positions, cos_sin_cache, offset, style, !inverse, *dx);
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
