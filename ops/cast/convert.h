// SPDX-License-Identifier: Apache-2.0
// One value from any dtype to any other, by the rules of cast: each rounds once.
#pragma once
#include <bit>
#include <limits>
#include <type_traits>

#include "anyop/dtype.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

template <class T>
inline constexpr bool kIsNarrowFloat = std::is_class_v<T>;  // 16 and 8 bits

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

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
