// SPDX-License-Identifier: Apache-2.0
// The storage formats of dtypes that few kernels compute with, and a visitor of all dtypes.
#pragma once
#include "anyop/dtype.h"

namespace anyop {

namespace detail {

// The fnuz kinds: no infinities, no negative zero, whose bits are NaN. `kMantissa` bits and an
// exponent of bias `kBias`.
template <int kMantissa, int kBias>
struct Fnuz {
  static constexpr std::uint8_t kNan = 0x80, kLargest = 0x7f;
  static constexpr int kShift = 23 - kMantissa;
  static constexpr std::uint32_t kOffset = std::uint32_t(127 - kBias) << 23;
  // Adding it lines the last bit of a float up with the last bit of a subnormal number.
  static constexpr std::uint32_t kAligns = std::uint32_t(1 - kBias - kMantissa + 23 + 127) << 23;

  ANYOP_INLINE static std::uint8_t Encode(float f, bool saturate) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(f), a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return kNan;
    std::uint32_t m = 0;
    if (a < kOffset + (1u << 23)) {
      const float r = std::bit_cast<float>(a) + std::bit_cast<float>(kAligns);
      m = std::bit_cast<std::uint32_t>(r) - kAligns;
    } else {
      m = (a - kOffset + (1u << (kShift - 1)) - 1 + (a >> kShift & 1)) >> kShift;
    }
    if (m > kLargest) {
      if (!saturate) return kNan;
      m = kLargest;
    }
    return m ? std::uint8_t((u >> 24 & 0x80) | m) : 0;
  }
  ANYOP_INLINE static float Decode(std::uint8_t bits) {
    const std::uint32_t sign = std::uint32_t(bits & 0x80) << 24, m = bits & 0x7f;
    if (bits == kNan) return std::bit_cast<float>(0x7fc00000u);
    if (m >> kMantissa) return std::bit_cast<float>(sign | ((m << kShift) + kOffset));
    const float last = std::bit_cast<float>(std::uint32_t(1 - kBias - kMantissa + 127) << 23);
    return sign ? -(float(m) * last) : float(m) * last;
  }
};

}  // namespace detail

// 1-4-3 bits, bias 8, largest 240.
struct F8E4M3FNUZ {
  std::uint8_t bits;
  F8E4M3FNUZ() = default;
  ANYOP_INLINE explicit F8E4M3FNUZ(float f, bool saturate = true)
      : bits(detail::Fnuz<3, 8>::Encode(f, saturate)) {}
  ANYOP_INLINE explicit operator float() const { return detail::Fnuz<3, 8>::Decode(bits); }
};
// 1-5-2 bits, bias 16, largest 57344.
struct F8E5M2FNUZ {
  std::uint8_t bits;
  F8E5M2FNUZ() = default;
  ANYOP_INLINE explicit F8E5M2FNUZ(float f, bool saturate = true)
      : bits(detail::Fnuz<2, 16>::Encode(f, saturate)) {}
  ANYOP_INLINE explicit operator float() const { return detail::Fnuz<2, 16>::Decode(bits); }
};
// A power of two, 2^-127 to 2^127, of bias 127; 0xff is NaN. It has neither a sign nor a zero: 0
// becomes 2^-127, a negative number NaN. Rounds to the nearest power, and up from the middle.
struct F8E8M0 {
  std::uint8_t bits;
  F8E8M0() = default;
  ANYOP_INLINE explicit F8E8M0(float f, bool saturate = true) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(f), a = u & 0x7fffffffu;
    const std::uint32_t power = a >> 23, rest = a & 0x7fffffu;
    if (a > 0x7f800000u || (a != u && a != 0)) {
      bits = 0xff;
    } else if (power == 0) {  // below 2^-126, from whose middle to 2^-127 it goes down
      bits = rest > 0x600000u;
    } else {
      const std::uint32_t nearest = power + (rest >= 0x400000u);
      bits = std::uint8_t(nearest < 0xff ? nearest : saturate ? 0xfe : 0xff);
    }
  }
  ANYOP_INLINE explicit operator float() const {
    if (bits == 0xff) return std::bit_cast<float>(0x7fc00000u);
    return std::bit_cast<float>(bits ? std::uint32_t(bits) << 23 : 0x400000u);
  }
};
// Two numbers of 1-2-1 bits, the first one in the lower half. One element of a tensor is a pair, as
// in PyTorch, so that sizes count pairs.
struct F4E2M1X2 {
  std::uint8_t bits;
};
struct C64 {
  float re, im;
};
struct C128 {
  double re, im;
};

template <>
inline constexpr int kDTypeOf<std::uint16_t> = ANYOP_U16;
template <>
inline constexpr int kDTypeOf<std::uint32_t> = ANYOP_U32;
template <>
inline constexpr int kDTypeOf<std::uint64_t> = ANYOP_U64;
template <>
inline constexpr int kDTypeOf<C64> = ANYOP_C64;
template <>
inline constexpr int kDTypeOf<C128> = ANYOP_C128;
template <>
inline constexpr int kDTypeOf<F8E8M0> = ANYOP_F8E8M0;
template <>
inline constexpr int kDTypeOf<F8E4M3FNUZ> = ANYOP_F8E4M3FNUZ;
template <>
inline constexpr int kDTypeOf<F8E5M2FNUZ> = ANYOP_F8E5M2FNUZ;
template <>
inline constexpr int kDTypeOf<F4E2M1X2> = ANYOP_F4E2M1X2;

// Calls f with a value of the C++ type behind `d`, whichever dtype it is.
template <class F>
[[gnu::always_inline]] inline decltype(auto) VisitStorage(DType d, F&& f) {
  static_assert(kDTypes == kFirstDTypes + 9, "a dtype of the list has no C++ type here");
  switch (d) {
    case DType::kU16:
      return f(std::uint16_t{});
    case DType::kU32:
      return f(std::uint32_t{});
    case DType::kU64:
      return f(std::uint64_t{});
    case DType::kC64:
      return f(C64{});
    case DType::kC128:
      return f(C128{});
    case DType::kF8E8M0:
      return f(F8E8M0{});
    case DType::kF8E4M3FNUZ:
      return f(F8E4M3FNUZ{});
    case DType::kF8E5M2FNUZ:
      return f(F8E5M2FNUZ{});
    case DType::kF4E2M1X2:
      return f(F4E2M1X2{});
    default:
      return Visit(d, f);
  }
}

// A stored number as a double: of a complex one the real part, of a pair its byte.
template <class E>
[[gnu::always_inline]] constexpr double ToDouble(const E& e) {
  if constexpr (std::is_arithmetic_v<E>) {
    return double(e);
  } else if constexpr (requires { e.re; }) {
    return double(e.re);
  } else if constexpr (requires { float(e); }) {
    return double(float(e));
  } else {
    return double(e.bits);
  }
}

}  // namespace anyop
