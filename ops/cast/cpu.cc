// SPDX-License-Identifier: Apache-2.0
#include "ops/cast/cast.h"
#include "ops/common/elementwise/elementwise.h"

namespace anyop::ops {
namespace {

// One value from any dtype to any other, by the rules of cast: each rounds once.

template <class T>
constexpr bool kIsNarrowFloat = std::is_class_v<T>;  // 16 and 8 bits

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

ANYOP_KERNEL(cast){.when = "T in " ANYOP_CAST_FIRST ", to in " ANYOP_CAST_FIRST,
                   .run = Bind<&Run>()};
ANYOP_KERNEL(cast_backward){
    .when = "T in " ANYOP_CAST_FIRST ", U in " ANYOP_CAST_FIRST,
    .run = Bind<&RunBackward>(),
};

}  // namespace anyop::ops
