// SPDX-License-Identifier: Apache-2.0
// Every pair of types that exists, with every rounding mode, against arithmetic in double.
#include <gtest/gtest.h>

#include "on_core.h"

namespace ascend_tests {
namespace {

// Bits of a number's fraction, and the exponent of the smallest subnormal; integers have ones.
template <class T>
struct Format {
  static constexpr bool kIsInteger = std::is_integral<T>::value;
  static constexpr int kDigits = std::is_same<T, half>::value         ? 11
                                 : std::is_same<T, bfloat16_t>::value ? 8
                                                                      : 24;
  static constexpr int kLeast = std::is_same<T, half>::value         ? -24
                                : std::is_same<T, bfloat16_t>::value ? -133
                                                                     : -149;
  static double Most() {
    if (kIsInteger) return static_cast<double>(std::numeric_limits<T>::max());
    return std::is_same<T, half>::value ? 65504.0 : 3.4e38;
  }
};

double Rounded(double value, RoundMode mode) {
  const double down = std::floor(value), up = std::ceil(value), rest = value - down;
  if (rest == 0) return value;
  const bool up_is_even = std::fmod(up, 2) == 0;
  switch (mode) {
    case RoundMode::CAST_FLOOR:
      return down;
    case RoundMode::CAST_CEIL:
      return up;
    case RoundMode::CAST_TRUNC:
      return value < 0 ? up : down;
    case RoundMode::CAST_ODD:
      return up_is_even ? down : up;
    case RoundMode::CAST_ROUND:
      if (rest == 0.5) return value < 0 ? down : up;
      break;
    default:
      if (rest == 0.5) return up_is_even ? up : down;
  }
  return rest < 0.5 ? down : up;
}

template <class D>
double Expected(double value, RoundMode mode) {
  using F = Format<D>;
  if (std::isinf(value) && !F::kIsInteger) return value;
  if (F::kIsInteger) {
    if (std::isnan(value)) return 0;
    const double least = static_cast<double>(std::numeric_limits<D>::min());
    return std::min(std::max(Rounded(value, mode), least), F::Most());
  }
  if (value == 0) return value;
  const int last = std::max(std::ilogb(value) + 1 - F::kDigits, F::kLeast);
  const double rounded = std::ldexp(Rounded(std::ldexp(value, -last), mode), last);
  return std::min(std::max(rounded, -F::Most()), F::Most());
}

template <class S>
std::vector<S> Values() {
  std::vector<S> values;
  if constexpr (Format<S>::kIsInteger) {
    using Limits = std::numeric_limits<S>;
    for (const S edge : {Limits::min(), Limits::max(), S(0)})
      for (int i = -3; i <= 3; ++i) values.push_back(static_cast<S>(std::uint64_t(edge) + i));
    std::uint32_t state = 21;
    for (int i = 0; i < 400; ++i) {
      const auto bits =
          std::uint64_t{Drawn(state)} << 40 ^ std::uint64_t{Drawn(state)} << 20 ^ Drawn(state);
      values.push_back(static_cast<S>(bits >> Drawn(state) % 64));
    }
  } else {
    for (const float v : {0.0f,   0.5f,   1.5f,     2.5f,     -0.5f,    -1.5f,    0.49f,
                          127.5f, 255.5f, 32767.5f, 65504.0f, 65519.0f, 65520.0f, 1e6f,
                          3e9f,   1e-6f,  3e-8f,    1e-39f,   1e19f,    INFINITY, -INFINITY})
      for (const float sign : {1.0f, -1.0f}) values.push_back(static_cast<S>(v * sign));
    std::uint32_t state = 22;
    for (int i = 0; i < 400; ++i) {
      const double fraction = Drawn(state) / 16777216.0 - 0.5;
      values.push_back(static_cast<S>(
          static_cast<float>(std::ldexp(fraction, static_cast<int>(Drawn(state) % 40) - 16))));
    }
  }
  return values;
}

template <class D, class S>
void CheckPair(const char* name) {
  anyop_ascend_clear();
  const std::vector<S> values = Values<S>();
  std::vector<double> got;
  for (int m = 0; m <= 6; ++m) {
    const auto mode = static_cast<RoundMode>(m);
    if (std::is_same<S, float>::value && std::is_same<D, float>::value && !m) continue;
    got.clear();
    OnCores(1, [&] {
      TPipe pipe;
      TBuf<> from, to;
      pipe.InitBuffer(from, 8192);
      pipe.InitBuffer(to, 8192);
      const auto s = from.Get<S>();
      const auto d = to.Get<D>();
      for (std::size_t i = 0; i < values.size(); ++i) s.SetValue(i, values[i]);
      Cast(d, s, mode, static_cast<std::uint32_t>(values.size()));
      for (std::size_t i = 0; i < values.size(); ++i)
        got.push_back(static_cast<double>(d.GetValue(i)));
    });
    ASSERT_EQ(got.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = static_cast<double>(values[i]);
      double want = Expected<D>(value, mode);
      if (std::is_same<S, float>::value && std::is_same<D, float>::value) {
        want = std::isinf(value) ? value : Rounded(value, mode);
      }
      ASSERT_EQ(got[i], want) << name << ", mode " << m << ", value " << value;
    }
  }
  EXPECT_EQ(Findings().dump(), "[]") << name;
}

TEST(Cast, RoundsEveryPairAsDoubleArithmeticSays) {
  CheckPair<float, half>("half to float");
  CheckPair<std::int32_t, half>("half to int32");
  CheckPair<std::int16_t, half>("half to int16");
  CheckPair<std::int8_t, half>("half to int8");
  CheckPair<std::uint8_t, half>("half to uint8");
  CheckPair<float, float>("float to float");
  CheckPair<half, float>("float to half");
  CheckPair<bfloat16_t, float>("float to bfloat16");
  CheckPair<std::int32_t, float>("float to int32");
  CheckPair<std::int16_t, float>("float to int16");
  CheckPair<float, bfloat16_t>("bfloat16 to float");
  CheckPair<std::int32_t, bfloat16_t>("bfloat16 to int32");
  CheckPair<float, std::int16_t>("int16 to float");
  CheckPair<half, std::int16_t>("int16 to half");
  CheckPair<float, std::int32_t>("int32 to float");
  CheckPair<std::int64_t, std::int32_t>("int32 to int64");
  CheckPair<std::int16_t, std::int32_t>("int32 to int16");
  CheckPair<half, std::uint8_t>("uint8 to half");
  CheckPair<half, std::int8_t>("int8 to half");
  CheckPair<std::int32_t, std::int64_t>("int64 to int32");
}
TEST(Cast, OfInt32ToHalfMultipliesByTheScale) {
  anyop_ascend_clear();
  float got = 0;
  OnCores(1, [&] {
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 512);
    const auto s = buffer.GetWithOffset<std::int32_t>(8, 0);
    const auto d = buffer.GetWithOffset<half>(8, 256);
    for (int i = 0; i < 8; ++i) s.SetValue(i, 1000 + i);
    SetDeqScale(half(0.5f));
    Cast(d, s, RoundMode::CAST_NONE, 8);
    got = static_cast<float>(d.GetValue(3));
  });
  EXPECT_EQ(got, 501.5f);
}
// Overflow saturates by default (the documentation of Cast): what rounds to more than 65504 is
// 65504, and an infinity, which does not overflow, stays one.
TEST(Cast, ToHalfSaturatesAtItsLargestNumber) {
  constexpr float kMost = 65504.0f, kBelow = 65472.0f;
  const auto cast = [](float value, RoundMode mode) {
    return static_cast<float>(anyop_casting::Convert<half>(value, mode));
  };
  for (int m = 0; m <= 6; ++m) {
    const auto mode = static_cast<RoundMode>(m);
    for (const float value : {65504.0f, 65519.0f, 65519.996f, 65520.0f, 65536.0f, 3e38f}) {
      EXPECT_EQ(cast(value, mode), kMost) << value << ", mode " << m;
      EXPECT_EQ(cast(-value, mode), -kMost) << -value << ", mode " << m;
    }
    const bool is_down = mode == RoundMode::CAST_FLOOR, is_up = mode == RoundMode::CAST_CEIL;
    const bool is_cut = mode == RoundMode::CAST_TRUNC;
    EXPECT_EQ(cast(65503.0f, mode), is_down || is_cut ? kBelow : kMost) << m;
    EXPECT_EQ(cast(-65503.0f, mode), is_up || is_cut ? -kBelow : -kMost) << m;
    EXPECT_EQ(cast(INFINITY, mode), INFINITY) << m;
    EXPECT_EQ(cast(-INFINITY, mode), -INFINITY) << m;
    EXPECT_TRUE(std::isnan(cast(NAN, mode))) << m;
  }
}
TEST(Cast, ToIntegersSaturatesAtTheirLimits) {
  constexpr auto kRint = RoundMode::CAST_RINT;
  for (const float value : {127.4f, 127.5f, 128.0f, 65504.0f, INFINITY}) {
    EXPECT_EQ((anyop_casting::Convert<std::int8_t>(half(value), kRint)), 127) << value;
  }
  for (const float value : {-127.6f, -128.0f, -129.0f, -65504.0f, -INFINITY}) {
    EXPECT_EQ((anyop_casting::Convert<std::int8_t>(half(value), kRint)), -128) << value;
  }
  for (const float value : {254.6f, 255.0f, 256.0f, 65504.0f, INFINITY}) {
    EXPECT_EQ((anyop_casting::Convert<std::uint8_t>(half(value), kRint)), 255) << value;
  }
  for (const float value : {-0.5f, -1.0f, -65504.0f, -INFINITY}) {
    EXPECT_EQ((anyop_casting::Convert<std::uint8_t>(half(value), kRint)), 0) << value;
  }
  EXPECT_EQ((anyop_casting::Convert<std::int32_t>(0x1.fffffep30f, kRint)), 0x7fffff80);
  for (const float value : {0x1p31f, 3e38f, INFINITY}) {
    EXPECT_EQ((anyop_casting::Convert<std::int32_t>(value, kRint)), INT32_MAX) << value;
    EXPECT_EQ((anyop_casting::Convert<std::int32_t>(-value, kRint)), INT32_MIN) << value;
  }
  EXPECT_EQ((anyop_casting::Convert<std::int64_t>(INFINITY, kRint)), INT64_MAX);
  EXPECT_EQ((anyop_casting::Convert<std::int16_t>(std::int32_t{40000}, kRint)), 32767);
  EXPECT_EQ((anyop_casting::Convert<std::int16_t>(std::int32_t{-40000}, kRint)), -32768);
}
TEST(Cast, OfNanToAnIntegerGivesZero) {
  EXPECT_EQ((ScalarCast<float, std::int32_t, RoundMode::CAST_RINT>(NAN)), 0);
}

}  // namespace
}  // namespace ascend_tests
