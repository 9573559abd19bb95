// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <type_traits>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

// Element `index` of x, truncated toward zero and clamped to [low, high]; whole numbers keep their
// low bits instead, which the caller's conversion takes.
std::int64_t ReadWhole(const Tensor& x, std::int64_t index, std::int64_t low, std::int64_t high) {
  if (!IsFloat(x.type())) {
    return Visit(x.type(), [&](auto zero) -> std::int64_t {
      using T = decltype(zero);
      if constexpr (std::is_integral_v<T>) return std::int64_t(x.base<const T>()[index]);
      return 0;
    });
  }
  const double v = Read(x, index);
  if (std::isnan(v)) return 0;
  if (v >= double(high)) return high;
  return v <= double(low) ? low : std::int64_t(v);
}

// A float stays as it is, beyond the range of an f8 too: rounding belongs to the comparison. What
// saturates is given saturated.
double ReadFloat(const Tensor& x, std::int64_t index, DType to, bool saturate) {
  const double v = Read(x, index);
  const double largest = to == DType::kF8E4M3 ? 448 : to == DType::kF8E5M2 ? 57344 : 0;
  if (largest == 0 || std::isnan(v) || std::fabs(v) <= largest) return v;
  if (saturate) return std::copysign(largest, v);
  const bool e4m3 = to == DType::kF8E4M3;
  if (e4m3 ? std::fabs(v) <= 464 : std::fabs(v) < 61440) return std::copysign(largest, v);
  return e4m3 ? std::numeric_limits<double>::quiet_NaN()
              : std::copysign(std::numeric_limits<double>::infinity(), v);
}

void Run(const Context&, const Tensor& x, DType to, bool saturate, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      const std::int64_t from = x.row_offset(r) + j, at = y.row_offset(r) + j;
      if (IsFloat(to)) {
        y.base<double>()[at] = ReadFloat(x, from, to, saturate);
        continue;
      }
      Visit(to, [&](auto zero) {
        using To = decltype(zero);
        if constexpr (std::is_same_v<To, bool>) {
          y.base<bool>()[at] = Read(x, from) != 0;
        } else if constexpr (std::is_integral_v<To>) {
          using Limits = std::numeric_limits<To>;
          y.base<To>()[at] = To(ReadWhole(x, from, Limits::min(), Limits::max()));
        }
      });
    }
  }
}

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor* dx) {
  if (dx) Run(ctx, dy, x.type(), /*saturate=*/true, *dx);
}

}  // namespace

extern constinit const Reference cast_reference{.op = "cast", .run = Bind<&Run>()};
extern constinit const Reference cast_backward_reference{.op = "cast_backward",
                                                         .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
