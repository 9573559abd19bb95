// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <limits>
#include <type_traits>

#include "anyop/dtype.h"
#include "ops/common/elementwise/elementwise.h"

namespace anyop::ops {
namespace {

// One value from any dtype to any other, by the rules of cast: each rounds once.

template <class T>
constexpr bool kIsNarrowFloat = std::is_class_v<T>;  // 16 and 8 bits

// The float next to v, toward 0 or away, that has an odd last bit unless it is exact: rounding it
// again to 16 or 8 bits gives what one rounding of v gives.
[[gnu::always_inline]] inline float RoundToOdd(double v) {
  const float f = float(v);
  if (double(f) == v || v != v) return f;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  // Toward zero first: one step back where rounding went beyond.
  const bool beyond = (v > 0 ? double(f) > v : double(f) < v);
  return std::bit_cast<float>((bits - beyond) | 1);
}
// A whole number as a double with an odd last bit where it does not fit exactly.
[[gnu::always_inline]] inline double RoundToOdd(std::int64_t v) {
  const std::uint64_t u = v < 0 ? 0 - std::uint64_t(v) : std::uint64_t(v);
  const std::uint64_t lost = u & 0x7ff;
  const double d = u >> 53 ? double(u >> 11 | (lost != 0)) * 0x1p11 : double(u);
  return v < 0 ? -d : d;
}

// f to a float of 16 or 8 bits.
template <class To>
[[gnu::always_inline]] inline To Narrow(float f, bool saturate) {
  if constexpr (sizeof(To) == 1) {
    return To(f, saturate);
  } else {
    return To(f);
  }
}

// v, truncated toward zero and clamped to the range of To; NaN gives 0.
template <class To, class Float>
[[gnu::always_inline]] inline To Truncate(Float v) {
  constexpr To kLow = std::numeric_limits<To>::min(), kHigh = std::numeric_limits<To>::max();
  constexpr Float kBeyond = Float(kHigh / 2 + 1) * 2;  // exact, unlike kHigh
  if (v >= kBeyond) return kHigh;
  if (v <= Float(kLow)) return kLow;
  return v == v ? To(v) : To(0);
}

template <class To, class From>
[[gnu::always_inline]] inline To Convert(From v, bool saturate) {
  if constexpr (std::is_same_v<To, From> && !std::is_same_v<To, F8E5M2>) {
    return v;
  } else if constexpr (kIsNarrowFloat<From>) {
    return Convert<To>(float(v), saturate);
  } else if constexpr (std::is_same_v<To, bool>) {
    return v != 0;
  } else if constexpr (kIsNarrowFloat<To>) {
    if constexpr (std::is_same_v<From, double>) {
      return Narrow<To>(RoundToOdd(v), saturate);
    } else if constexpr (sizeof(From) == 8) {
      return Narrow<To>(RoundToOdd(RoundToOdd(v)), saturate);
    } else if constexpr (std::is_same_v<From, std::int32_t>) {
      return Narrow<To>(RoundToOdd(double(v)), saturate);
    } else {
      return Narrow<To>(float(v), saturate);
    }
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return Truncate<To>(v);
  } else {
    return To(v);
  }
}

template <class T>
constexpr bool kHasLanes =
    std::is_same_v<T, float> || std::is_same_v<T, BF16> || std::is_same_v<T, F16>;

// n neighbouring elements.
template <class To, class From>
void CastRun(const void* from, void* to, std::int64_t n, bool saturate) {
  const From* x = static_cast<const From*>(from);
  To* y = static_cast<To*>(to);
  // f8e5m2 has infinities, which may have to become its largest value.
  if constexpr (std::is_same_v<From, bool>) {
    const auto* bytes = static_cast<const std::uint8_t*>(from);  // of others may be neither 0 nor 1
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = Convert<To>(bytes[i] != 0, saturate);
  } else if constexpr (std::is_same_v<To, From> && !std::is_same_v<To, F8E5M2>) {
    std::memcpy(y, x, std::size_t(n) * sizeof(To));
  } else if constexpr (kHasLanes<To> && kHasLanes<From>) {
    ForBlocks<4>(n, [&](std::int64_t i, auto count, auto block) {
      F32 v[block];
      LoadAll(v, x + i, count);
      StoreAll(y + i, v, count);
    });
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = Convert<To>(x[i], saturate);
  }
}

using CastFunction = void (*)(const void*, void*, std::int64_t, bool);

CastFunction FindCast(DType from, DType to) {
  return Visit(from, [&](auto from_zero) {
    return Visit(to, [&](auto to_zero) -> CastFunction {
      return &CastRun<decltype(to_zero), decltype(from_zero)>;
    });
  });
}

void Run(const Context& ctx, const Tensor& x, DType to, bool saturate, const Tensor& y) {
  const CastFunction cast = FindCast(x.type(), to);
  const int x_bytes = Bytes(x.type()), y_bytes = Bytes(to);
  const auto apply = [&](std::int64_t n, std::int64_t ix, std::int64_t iy) {
    cast(x.base<const char>() + ix * x_bytes, y.base<char>() + iy * y_bytes, n, saturate);
  };
  ForRuns(ctx, (x_bytes + y_bytes) * 0.02, apply, x, y);
}

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor* dx) {
  if (dx) Run(ctx, dy, x.type(), /*saturate=*/true, *dx);
}

}  // namespace

ANYOP_KERNEL(cast){.run = Bind<&Run>()};
ANYOP_KERNEL(cast_backward){.run = Bind<&RunBackward>()};

}  // namespace anyop::ops
