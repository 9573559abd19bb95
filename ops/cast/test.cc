// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <limits>

namespace anyop::optest::cast_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

const OpTest kCast{
    .op = "cast",
    .tolerance = Exact(),
    .row_invariant = true,
    .ranges = {{"x", {-600, 600}}},
};
TEST(Cast, MatchesItsReference) { CheckAll(kCast); }

// What `kernel` makes of one value.
Array CastOne(const Array& x, DType to, bool saturate, const std::string& kernel) {
  return Call("cast").Set("x", x).Set("to", to).Set("saturate", saturate).Run(kernel)["y"];
}

// Each value stands often enough to meet whole vectors and a tail.
void ExpectCast(DType from, double value, DType to, double expected, bool saturate = true) {
  Call call("cast");
  call.Set("x", Array(from, {37}, {value})).Set("to", to).Set("saturate", saturate);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& y = results.find("y")->second;
    for (std::int64_t i : {0, 36}) {
      const double got = y.Get(i);
      EXPECT_TRUE(std::isnan(expected)
                      ? std::isnan(got)
                      : got == expected && std::signbit(got) == std::signbit(expected))
          << kernel << ": " << Name(from) << " " << value << " gives " << Name(to) << " " << got
          << ", not " << expected;
    }
  }
}

TEST(Cast, SaturatesF8OnlyIfAsked) {
  for (DType from : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    for (double sign : {1.0, -1.0}) {
      for (double x : {449.0, 480.0, 1000.0, kInf}) {
        ExpectCast(from, sign * x, DType::kF8E4M3, sign * 448, true);
      }
      ExpectCast(from, sign * 464, DType::kF8E4M3, sign * 448, false);
      ExpectCast(from, sign * 480, DType::kF8E4M3, kNan, false);
      ExpectCast(from, sign * kInf, DType::kF8E4M3, kNan, false);
      ExpectCast(from, sign * kInf, DType::kF8E5M2, sign * 57344, true);
      ExpectCast(from, sign * 57344, DType::kF8E5M2, sign * 57344, false);
      ExpectCast(from, sign * 61440, DType::kF8E5M2, sign * kInf, false);
      ExpectCast(from, sign * kInf, DType::kF8E5M2, sign * kInf, false);
    }
    ExpectCast(from, kNan, DType::kF8E4M3, kNan, true);
    ExpectCast(from, kNan, DType::kF8E5M2, kNan, true);
  }
  for (const bool saturate : {true, false}) {
    ExpectCast(DType::kF8E5M2, kNan, DType::kF8E5M2, kNan, saturate);
    ExpectCast(DType::kF8E4M3, kNan, DType::kF8E4M3, kNan, saturate);
  }
  ExpectCast(DType::kF64, 464.0001, DType::kF8E4M3, kNan, false);
  ExpectCast(DType::kF64, 0x1p-10, DType::kF8E4M3, 0);
  ExpectCast(DType::kF64, 0x1.0001p-10, DType::kF8E4M3, 0x1p-9);
}

TEST(Cast, RoundsToPowersOfTwo) {
  for (DType from : {DType::kF64, DType::kF32, DType::kBF16}) {
    ExpectCast(from, 1.375, DType::kF8E8M0, 1);
    ExpectCast(from, 1.5, DType::kF8E8M0, 2);
    ExpectCast(from, 3, DType::kF8E8M0, 4);
    ExpectCast(from, 0, DType::kF8E8M0, 0x1p-127);
    ExpectCast(from, 0x1.8p-127, DType::kF8E8M0, 0x1p-127);
    ExpectCast(from, 0x1.8p-126, DType::kF8E8M0, 0x1p-125);
    ExpectCast(from, -1, DType::kF8E8M0, kNan);
    ExpectCast(from, kNan, DType::kF8E8M0, kNan);
    ExpectCast(from, kInf, DType::kF8E8M0, 0x1p127);
    ExpectCast(from, kInf, DType::kF8E8M0, kNan, false);
  }
  ExpectCast(DType::kF64, 0x1.7ffffffffffffp0, DType::kF8E8M0, 1);
}

TEST(Cast, TheFnuzKindsHaveNeitherInfinityNorNegativeZero) {
  for (DType from : {DType::kF64, DType::kF32, DType::kBF16}) {
    ExpectCast(from, -0.0, DType::kF8E4M3FNUZ, 0.0);
    ExpectCast(from, -0x1p-12, DType::kF8E4M3FNUZ, 0.0);
    ExpectCast(from, -0x1.8p-10, DType::kF8E4M3FNUZ, -0x1p-9);
    ExpectCast(from, 247, DType::kF8E4M3FNUZ, 240, false);
    ExpectCast(from, -248, DType::kF8E4M3FNUZ, -240);
    ExpectCast(from, -248, DType::kF8E4M3FNUZ, kNan, false);
    ExpectCast(from, kInf, DType::kF8E5M2FNUZ, 57344);
    ExpectCast(from, 61440, DType::kF8E5M2FNUZ, kNan, false);
    ExpectCast(from, kNan, DType::kF8E5M2FNUZ, kNan);
  }
}

TEST(Cast, ComplexNumbersKeepBothPartsOrLoseOne) {
  Array x(DType::kC64, {2});
  x.data<float>()[0] = 1.5f, x.data<float>()[1] = -2.0f, x.data<float>()[3] = 0.5f;
  const auto cast = [&](DType to) { return CastOne(x, to, true, "cpu_portable_storage"); };
  const Array wide = cast(DType::kC128);
  EXPECT_EQ(std::vector<double>(wide.data<double>(), wide.data<double>() + 4),
            (std::vector<double>{1.5, -2, 0, 0.5}));
  EXPECT_EQ(cast(DType::kF32).Get(0), 1.5);
  EXPECT_EQ(cast(DType::kU16).Get(0), 1);
  EXPECT_EQ(cast(DType::kBool).Get(1), 1);
}

TEST(Cast, WholeNumbersOf64BitsKeepTheirSign) {
  Array x(DType::kU64, {2});
  x.data<std::uint64_t>()[0] = ~0ull, x.data<std::uint64_t>()[1] = (1ull << 63) + (1ull << 39) + 1;
  const auto cast = [&](DType to) { return CastOne(x, to, true, "cpu_portable_storage"); };
  EXPECT_EQ(cast(DType::kF64).Get(0), 0x1p64);
  EXPECT_EQ(cast(DType::kF32).Get(1), 0x1.000002p63);  // beyond the middle by one
  EXPECT_EQ(cast(DType::kI64).GetInt(0), -1);
  EXPECT_EQ(cast(DType::kU32).Get(1), 1);
}

// An array holds what rounding gives, which saturates: infinities are written as bytes.
TEST(Cast, SaturatesTheInfinitiesOfF8Too) {
  Array x(DType::kF8E5M2, {74});
  for (int i = 0; i < 74; ++i) x.data<std::uint8_t>()[i] = i % 2 ? 0xfc : 0x7c;
  ASSERT_EQ(x.Get(0), kInf);
  for (const DType to : {DType::kF8E5M2, DType::kF8E4M3}) {
    for (const bool saturate : {true, false}) {
      const double largest = to == DType::kF8E5M2 ? 57344 : 448;
      const double expected = saturate ? largest : to == DType::kF8E5M2 ? kInf : kNan;
      Call call("cast");
      call.Set("x", x).Set("to", to).Set("saturate", saturate);
      for (const auto& [kernel, results] : call.RunEveryKernel()) {
        for (int i = 0; i < 74; ++i) {
          const double y = results.at("y").Get(i) * (i % 2 ? -1 : 1);
          ASSERT_TRUE(std::isnan(expected) ? std::isnan(y) : y == expected)
              << kernel << ": " << Name(to) << " " << y << ", not " << expected;
        }
      }
    }
  }
}

TEST(Cast, RoundsF64AndI64OnlyOnce) {
  // Rounding to f32 first would land on a tie, and then go to the even neighbour.
  ExpectCast(DType::kF64, 1 + 0x1p-8 + 0x1p-40, DType::kBF16, 1 + 0x1p-7);
  ExpectCast(DType::kF64, -(1 + 0x1p-8 + 0x1p-40), DType::kBF16, -(1 + 0x1p-7));
  ExpectCast(DType::kF64, 1 + 0x3p-8 - 0x1p-40, DType::kBF16, 1 + 0x1p-7);
  ExpectCast(DType::kF64, 1 + 0x1p-11 + 0x1p-45, DType::kF16, 1 + 0x1p-10);
  ExpectCast(DType::kF64, 1 + 0x1p-4 + 0x1p-50, DType::kF8E4M3, 1.125);
  ExpectCast(DType::kF64, 1 + 0x1p-3 + 0x1p-50, DType::kF8E5M2, 1.25);
  ExpectCast(DType::kF64, 1e300, DType::kBF16, kInf);
  ExpectCast(DType::kF64, -1e300, DType::kF16, -kInf);
  ExpectCast(DType::kF64, -1e-300, DType::kF16, -0.0);
  ExpectCast(DType::kF64, 0x1.8p-25, DType::kF16, 0x1p-24);
  for (int sign : {1, -1}) {
    Call call("cast");
    Array x(DType::kI64, {1});
    x.SetInt(0, sign * ((std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1));
    call.Set("x", x).Set("to", DType::kBF16);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_EQ(results.find("y")->second.Get(0), sign * (0x1p62 + 0x1p55)) << kernel;
    }
    x.SetInt(0, sign * ((std::int64_t{1} << 30) + (std::int64_t{1} << 22) + 1));
    call.Set("x", x);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_EQ(results.find("y")->second.Get(0), sign * (0x1p30 + 0x1p23)) << kernel;
    }
  }
  ExpectCast(DType::kI32, (1 << 30) + (1 << 22) + 1, DType::kBF16, 0x1p30 + 0x1p23);
}

TEST(Cast, TruncatesAndClampsFloatsToIntegers) {
  for (DType from : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    ExpectCast(from, 2.75, DType::kI32, 2);
    ExpectCast(from, -2.75, DType::kI8, -2);
    ExpectCast(from, -0.75, DType::kU8, 0);
    ExpectCast(from, -5, DType::kU8, 0);
    ExpectCast(from, 300, DType::kU8, 255);
    ExpectCast(from, 300, DType::kI8, 127);
    ExpectCast(from, -300, DType::kI8, -128);
    ExpectCast(from, kInf, DType::kI16, 32767);
    ExpectCast(from, -kInf, DType::kI16, -32768);
    ExpectCast(from, kInf, DType::kI32, 2147483647);
    ExpectCast(from, -kInf, DType::kI64, -0x1p63);
    for (DType to : {DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kU8}) {
      ExpectCast(from, kNan, to, 0);
    }
  }
  ExpectCast(DType::kF64, 2147483647.5, DType::kI32, 2147483647);
  ExpectCast(DType::kF32, 0x1p31, DType::kI32, 2147483647);
  Call call("cast");
  call.Set("x", Array(DType::kF32, {1}, {0x1p63})).Set("to", DType::kI64);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second.GetInt(0), std::numeric_limits<std::int64_t>::max())
        << kernel;
  }
}

TEST(Cast, KeepsTheLowBitsOfIntegers) {
  ExpectCast(DType::kI32, 300, DType::kI8, 44);
  ExpectCast(DType::kI64, -1, DType::kU8, 255);
  ExpectCast(DType::kI64, 0x100000005, DType::kI32, 5);
  ExpectCast(DType::kU8, 200, DType::kI8, -56);
}

TEST(Cast, TakesAnythingButZeroForTrue) {
  ExpectCast(DType::kF32, kNan, DType::kBool, 1);
  ExpectCast(DType::kF32, -0.0, DType::kBool, 0);
  ExpectCast(DType::kF64, 1e-300, DType::kBool, 1);
  ExpectCast(DType::kF16, 0x1p-24, DType::kBool, 1);
  ExpectCast(DType::kI64, 0x100000000, DType::kBool, 1);
  ExpectCast(DType::kBool, 1, DType::kF8E4M3, 1);
  ExpectCast(DType::kBool, 1, DType::kI64, 1);
}

// Memory of a host that is viewed as bool: what is not 0 is true, as NumPy and torch read it.
TEST(Cast, ReadsAnyByteOfABool) {
  Array x(DType::kBool, {37}, {0});
  for (int i = 0; i < 37; ++i) x.data<unsigned char>()[i] = static_cast<unsigned char>(i * 71);
  for (const DType to : {DType::kBool, DType::kU8, DType::kI32, DType::kI64, DType::kF32,
                         DType::kF64, DType::kBF16, DType::kF8E4M3}) {
    Call call("cast");
    call.Set("x", x).Set("to", to);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      const Array& y = results.find("y")->second;
      for (int i = 0; i < 37; ++i) EXPECT_EQ(y.Get(i), i > 0) << kernel << " " << Name(to) << i;
      if (to == DType::kBool) {
        EXPECT_EQ(y.data<unsigned char>()[1], 1) << kernel;
      }
    }
  }
}

TEST(Cast, GoesFromEvery16BitFloatToEveryOtherAsOneRoundingDoes) {
  for (DType from : {DType::kF16, DType::kBF16}) {
    Array x(from, {65536});
    for (int i = 0; i < 65536; ++i) x.data<std::uint16_t>()[i] = std::uint16_t(i);
    for (DType to :
         {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
      Call call("cast");
      call.Set("x", x).Set("to", to);
      for (const auto& [kernel, results] : call.RunEveryKernel()) {
        const Array& y = results.find("y")->second;
        for (int i = 0; i < 65536; ++i) {
          const double v = x.Get(i), got = y.Get(i);
          const double most = to == DType::kF8E4M3 ? 448 : to == DType::kF8E5M2 ? 57344 : kInf;
          const double limited = std::fabs(v) > most ? std::copysign(most, v) : v;
          const double expected = RoundTo(to, limited);
          ASSERT_TRUE(std::isnan(v) ? std::isnan(got) : got == expected)
              << kernel << ": " << Name(from) << " " << v << " gives " << got;
        }
      }
    }
  }
}

TEST(Cast, IsUndoneByTheWayBack) {
  for (DType narrow : {DType::kF8E4M3, DType::kF8E5M2}) {
    Array x(narrow, {256});
    for (int i = 0; i < 256; ++i) x.data<std::uint8_t>()[i] = std::uint8_t(i);
    for (DType wide : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      Call call("cast");
      call.Set("x", x).Set("to", wide);
      for (const auto& [kernel, results] : call.RunEveryKernel()) {
        const Array back = CastOne(results.find("y")->second, narrow, false, kernel);
        for (int i = 0; i < 256; ++i) {
          EXPECT_TRUE(std::isnan(x.Get(i)) || back.Get(i) == x.Get(i)) << kernel << " " << i;
        }
      }
    }
  }
}

const OpTest kCastBackward{.op = "cast_backward", .tolerance = Exact(), .row_invariant = true};
TEST(CastBackward, MatchesItsReference) { CheckAll(kCastBackward); }

TEST(CastBackward, GivesTheDtypeOfTheInput) {
  Call call("cast_backward");
  call.Set("dy", Array(DType::kF32, {2}, {1 + 0x1p-9, 1e39})).Set("x", Array(DType::kBF16, {2}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second, Array(DType::kBF16, {2}, {1, HUGE_VAL})) << kernel;
  }
}

}  // namespace
}  // namespace anyop::optest::cast_test
