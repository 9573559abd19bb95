// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <type_traits>

#include "anyop/op.h"
#include "anyop/storage.h"

namespace anyop::ops {
namespace {

double Real(const Tensor& x, std::int64_t index) {
  return VisitStorage(x.type(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      return double(x.base<const std::uint8_t>()[index] != 0);
    } else {
      return ToDouble(x.base<const T>()[index]);
    }
  });
}

double Imaginary(const Tensor& x, std::int64_t index) {
  if (x.type() == DType::kC64) return x.base<const C64>()[index].im;
  return x.type() == DType::kC128 ? x.base<const C128>()[index].im : 0;
}

// Element `index` of x, truncated toward zero and clamped to the range of To; of whole numbers the
// low bits.
template <class To>
To ReadWhole(const Tensor& x, std::int64_t index) {
  if (KindOf(x.type()) != DTypeKind::kFloat && KindOf(x.type()) != DTypeKind::kComplex) {
    return VisitStorage(x.type(), [&](auto zero) -> To {
      using T = decltype(zero);
      if constexpr (std::is_integral_v<T>) return To(x.base<const T>()[index]);
      return To(0);
    });
  }
  using Limits = std::numeric_limits<To>;
  const double v = Real(x, index);
  if (std::isnan(v)) return 0;
  if (v >= std::ldexp(1.0, Limits::digits)) return Limits::max();
  return v <= double(Limits::min()) ? Limits::min() : To(v);
}

// The largest finite value of a dtype of 8 bits, and the least one that rounds beyond it.
struct Top {
  double largest = 0, beyond = 0;
  bool has_infinity = false;
};
Top TopOf(DType to) {
  switch (to) {
    case DType::kF8E4M3:
      return {448, std::nextafter(464, 1e9)};
    case DType::kF8E5M2:
      return {57344, 61440, true};
    case DType::kF8E4M3FNUZ:
      return {240, 248};
    case DType::kF8E5M2FNUZ:
      return {57344, 61440};
    case DType::kF8E8M0:
      return {0x1p127, 0x1.8p127};
    default:
      return {};
  }
}

// A float stays as it is, beyond the range of an f8 too: rounding belongs to the comparison. What
// saturates is given saturated.
double ReadFloat(const Tensor& x, std::int64_t index, DType to, bool saturate) {
  const double v = Real(x, index);
  const Top top = TopOf(to);
  if (to == DType::kF8E8M0 && v < 0) return std::numeric_limits<double>::quiet_NaN();
  if (top.largest == 0 || std::isnan(v) || std::fabs(v) <= top.largest) return v;
  if (saturate || std::fabs(v) < top.beyond) return std::copysign(top.largest, v);
  return top.has_infinity ? std::copysign(std::numeric_limits<double>::infinity(), v)
                          : std::numeric_limits<double>::quiet_NaN();
}

void Run(const Context&, const Tensor& x, DType to, bool saturate, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      const std::int64_t from = x.row_offset(r) + j, at = y.row_offset(r) + j;
      if (IsFloat(to)) {
        y.base<double>()[at] = ReadFloat(x, from, to, saturate);
        continue;
      }
      VisitStorage(to, [&](auto zero) {
        using To = decltype(zero);
        if constexpr (std::is_same_v<To, bool>) {
          y.base<bool>()[at] = Real(x, from) != 0 || Imaginary(x, from) != 0;
        } else if constexpr (std::is_integral_v<To>) {
          y.base<To>()[at] = ReadWhole<To>(x, from);
        } else if constexpr (requires { zero.re; }) {
          using Part = decltype(zero.re);
          y.base<To>()[at] = {Part(Real(x, from)), Part(Imaginary(x, from))};
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
