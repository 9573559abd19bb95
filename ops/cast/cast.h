// SPDX-License-Identifier: Apache-2.0
// Roundings that the kernels of cast share.
#pragma once
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "anyop/dtype.h"

// What the kernels of cpu.cc convert, each to each: 144 functions. Others go through storage.cc.
#define ANYOP_CAST_FIRST \
  "f64 | f32 | f16 | bf16 | f8e4m3 | f8e5m2 | i64 | i32 | i16 | i8 | u8 | bool"

namespace anyop::ops {
inline namespace ANYOP_ISA {

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
[[gnu::always_inline]] inline double RoundToOdd(std::uint64_t u) {
  const std::uint64_t lost = u & 0x7ff;
  return u >> 53 ? double(u >> 11 | (lost != 0)) * 0x1p11 : double(u);
}
[[gnu::always_inline]] inline double RoundToOdd(std::int64_t v) {
  return v < 0 ? -RoundToOdd(0 - std::uint64_t(v)) : RoundToOdd(std::uint64_t(v));
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

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
