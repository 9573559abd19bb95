// SPDX-License-Identifier: Apache-2.0
// Conversions between element types with the dialect's rounding modes. NONE is exact where nothing
// is lost and RINT elsewhere. Overflow saturates: half at 65504, integers at their limits. The
// documentation of Cast says no more. Of infinities and NaN that of scalar conversions does (page
// atlasascendc_api_07_10562): the limits, and 0.
#pragma once
#include "anyop_ascend/vector.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {
namespace anyop_casting {

template <class T>
constexpr bool kIsFloat = std::is_floating_point<T>::value || std::is_same<T, half>::value ||
                          std::is_same<T, bfloat16_t>::value;
template <class A, class B>
constexpr bool kIs = std::is_same<A, B>::value;

inline double RoundTo(double value, RoundMode mode) {
  switch (mode) {
    case RoundMode::CAST_FLOOR:
      return std::floor(value);
    case RoundMode::CAST_CEIL:
      return std::ceil(value);
    case RoundMode::CAST_ROUND:
      return std::round(value);
    case RoundMode::CAST_TRUNC:
      return std::trunc(value);
    case RoundMode::CAST_ODD: {  // von Neumann: what is inexact becomes odd
      const double t = std::trunc(value);
      if (t == value || std::fmod(t, 2) != 0) return t;
      return value < 0 ? t - 1 : t + 1;
    }
    default:
      return std::nearbyint(value);
  }
}

// D: half or bfloat16_t. Other modes than RINT round at the last bit that D keeps of the value.
template <class D>
inline D Narrow(float value, RoundMode mode) {
  constexpr bool kHalf = kIs<D, half>;
  if (std::isnan(value) || std::isinf(value)) return static_cast<D>(value);
  if (mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT) {
    if (kHalf && std::fabs(value) >= 65520.0f) return D(value > 0 ? 65504.0f : -65504.0f);
    return static_cast<D>(value);
  }
  int exponent;
  std::frexp(value, &exponent);
  const int last = std::max(exponent - (kHalf ? 11 : 8), kHalf ? -24 : -133);
  const double rounded =
      std::ldexp(RoundTo(std::ldexp(static_cast<double>(value), -last), mode), last);
  if (kHalf && std::fabs(rounded) > 65504) return D(rounded > 0 ? 65504.0f : -65504.0f);
  return static_cast<D>(static_cast<float>(rounded));
}

template <class D>
inline D ToInteger(double value, RoundMode mode) {
  using Limits = std::numeric_limits<D>;
  if (std::isnan(value)) return D(0);
  const double rounded = RoundTo(value, mode);
  if (rounded <= static_cast<double>(Limits::min())) return Limits::min();
  if (rounded >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<D>(rounded);
}

// The float next to an integer in the direction of the mode.
template <class S>
inline float IntegerToFloat(S value, RoundMode mode) {
  const float near = static_cast<float>(value);
  if (sizeof(S) < 4 || mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT) return near;
  const long double exact = value, got = near;
  if (got == exact) return near;
  const float below = got > exact ? std::nextafter(near, -INFINITY) : near;
  const float above = got < exact ? std::nextafter(near, INFINITY) : near;
  switch (mode) {
    case RoundMode::CAST_FLOOR:
      return below;
    case RoundMode::CAST_CEIL:
      return above;
    case RoundMode::CAST_TRUNC:
      return exact < 0 ? above : below;
    case RoundMode::CAST_ROUND: {
      const long double down = exact - below, up = above - exact;
      if (down == up) return exact < 0 ? below : above;
      return down < up ? below : above;
    }
    default: {
      std::uint32_t bits;
      std::memcpy(&bits, &below, 4);
      return bits & 1 ? below : above;
    }
  }
}

template <class D, class S>
inline D Convert(S value, RoundMode mode) {
  if constexpr (kIs<D, S> && kIs<D, float>) {
    return mode == RoundMode::CAST_NONE ? value : static_cast<float>(RoundTo(value, mode));
  } else if constexpr (kIs<D, S>) {
    return value;
  } else if constexpr (kIsFloat<S> && kIs<D, float>) {
    return static_cast<float>(value);
  } else if constexpr (kIsFloat<S> && kIsFloat<D>) {
    return Narrow<D>(static_cast<float>(value), mode);
  } else if constexpr (kIsFloat<S>) {
    return ToInteger<D>(static_cast<double>(static_cast<float>(value)), mode);
  } else if constexpr (kIs<D, float>) {
    return IntegerToFloat(value, mode);
  } else if constexpr (kIsFloat<D>) {
    return Narrow<D>(static_cast<float>(value), mode);
  } else {
    using Limits = std::numeric_limits<D>;
    if constexpr (sizeof(D) < sizeof(S)) {
      if (value < static_cast<S>(Limits::min())) return Limits::min();
      if (value > static_cast<S>(Limits::max())) return Limits::max();
    }
    return static_cast<D>(value);
  }
}

// Pairs that the vector unit of A2 and A3 converts.
template <class D, class S>
constexpr bool Exists() {
  using I8 = std::int8_t;
  using U8 = std::uint8_t;
  using I16 = std::int16_t;
  using I32 = std::int32_t;
  using I64 = std::int64_t;
  if (kIs<S, half>) return kIs<D, float> || kIs<D, I32> || kIs<D, I16> || kIs<D, I8> || kIs<D, U8>;
  if (kIs<S, float>)
    return kIs<D, float> || kIs<D, half> || kIs<D, bfloat16_t> || kIs<D, I64> || kIs<D, I32> ||
           kIs<D, I16>;
  if (kIs<S, bfloat16_t>) return kIs<D, float> || kIs<D, I32>;
  if (kIs<S, I16>) return kIs<D, float> || kIs<D, half>;
  if (kIs<S, I32>) return kIs<D, float> || kIs<D, I64> || kIs<D, I16> || kIs<D, half>;
  if (kIs<S, I64>) return kIs<D, float> || kIs<D, I32>;
  if (kIs<S, U8> || kIs<S, I8>) return kIs<D, half>;
  return false;
}

template <class D, class S>
inline void Check(rt::Site site) {
  if constexpr (kChecked) {
    if (!Exists<D, S>()) {
      rt::Report("cast-pair", site,
                 "the vector unit does not convert between these types of %zu and %zu bytes. Try "
                 "two casts, through half or float",
                 sizeof(S), sizeof(D));
    }
    if (kIs<D, bfloat16_t> || kIs<S, bfloat16_t>) {
      rt::CheckSoc(rt::kNoBfloat16, "bfloat16", site);
    }
  }
}

template <class D, class S>
struct Caster {
  RoundMode mode;
  float scale;  // of int32 to half

  D operator()(D, S value) const {
    if constexpr (kIs<D, half> && kIs<S, std::int32_t>) {
      return Narrow<half>(static_cast<float>(value) * scale, mode);
    } else {
      return Convert<D, S>(value, mode);
    }
  }
};

}  // namespace anyop_casting

template <class D, class S>
inline void Cast(const LocalTensor<D>& dst, const LocalTensor<S>& src, const RoundMode& mode,
                 const std::uint32_t count, ANYOP_ASCEND_SITE) {
  anyop_casting::Check<D, S>(site);
  UnaryCount<false>(dst, src, count, anyop_casting::Caster<D, S>{mode, rt::block->deq_scale}, site);
}
template <class D, class S, bool isSetMask = true>
inline void Cast(const LocalTensor<D>& dst, const LocalTensor<S>& src, const RoundMode& mode,
                 const std::uint64_t mask, const AnyopTimes repeats, const UnaryRepeatParams& p,
                 ANYOP_ASCEND_SITE) {
  anyop_casting::Check<D, S>(site);
  Unary<isSetMask, false>(dst, src, mask, repeats, p,
                          anyop_casting::Caster<D, S>{mode, rt::block->deq_scale}, site);
}
template <class D, class S, bool isSetMask = true>
inline void Cast(const LocalTensor<D>& dst, const LocalTensor<S>& src, const RoundMode& mode,
                 const std::uint64_t mask[], const AnyopTimes repeats, const UnaryRepeatParams& p,
                 ANYOP_ASCEND_SITE) {
  anyop_casting::Check<D, S>(site);
  Unary<isSetMask, false>(dst, src, mask, repeats, p,
                          anyop_casting::Caster<D, S>{mode, rt::block->deq_scale}, site);
}

inline bfloat16_t ToBfloat16(const float& value) { return bfloat16_t(value); }
inline float ToFloat(const bfloat16_t& value) { return static_cast<float>(value); }
template <class S, class D, RoundMode mode>
inline D ScalarCast(S value) {
  return anyop_casting::Convert<D, S>(value, mode);
}
template <int count_of>
inline std::int64_t ScalarGetCountOfValue(std::uint64_t value) {
  const int ones = __builtin_popcountll(value);
  return count_of ? ones : 64 - ones;
}

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
