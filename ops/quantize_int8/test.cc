// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <limits>
#include <utility>

namespace anyop::optest::quantize_int8_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

const OpTest kQuantize{
    .op = "quantize_int8",
    .row_invariant = true,
    .sizes = {"rows = 16, d = 576", "rows = 3, d = 257"},
    .ranges = {{"x", {-300, 300}}, {"scale", {0.5, 2}}},
};
TEST(QuantizeInt8, MatchesItsReference) { CheckAll(kQuantize); }

const OpTest kQuantizeDynamic{
    .op = "quantize_int8_dynamic",
    .row_invariant = true,
    .sizes = {"rows = 16, d = 576", "rows = 3, d = 257"},
};
TEST(QuantizeInt8Dynamic, MatchesItsReference) { CheckAll(kQuantizeDynamic); }

const OpTest kDequantize{
    .op = "dequantize_int8",
    .row_invariant = true,
    .sizes = {"rows = 16, d = 576", "rows = 3, d = 257"},
};
TEST(DequantizeInt8, MatchesItsReference) { CheckAll(kDequantize); }

// Calls one function with the results of every kernel, for x repeated often enough to meet whole
// vectors and a tail.
template <class F>
void ForEveryKernel(Call& call, F&& f) {
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    SCOPED_TRACE(kernel);
    f(results);
  }
}
Array Repeated(DType dtype, const std::vector<double>& values, int times) {
  const auto n = std::int64_t(values.size());
  Array x(dtype, {1, n * times});
  for (std::int64_t i = 0; i < x.size(); ++i) x.Set(i, values[std::size_t(i % n)]);
  return x;
}
void ExpectRepeated(const Array& q, const std::vector<int>& expected) {
  for (std::int64_t i = 0; i < q.size(); ++i) {
    ASSERT_EQ(q.GetInt(i), expected[std::size_t(i) % expected.size()]) << "at " << i;
  }
}

TEST(QuantizeInt8, RoundsHalfToEvenThenAddsTheZeroPointThenSaturates) {
  Call call("quantize_int8");
  call.Set("x", Repeated(DType::kF32, {0.5, 1.5, -0.5, -2.5, 200, -200, kNan, kInf, -kInf}, 19));
  call.Set("scale", Array(DType::kF32, {1}, {1}));
  ForEveryKernel(call, [](const Results& r) {
    ExpectRepeated(r.find("q")->second, {0, 2, 0, -2, 127, -128, 0, 127, -128});
  });
  call.Set("zero_point", Array(DType::kI32, {1}, {3}));
  ForEveryKernel(call, [](const Results& r) {
    ExpectRepeated(r.find("q")->second, {3, 5, 3, 1, 127, -128, 3, 127, -128});
  });
}

TEST(QuantizeInt8, TakesZeroPointsFarBeyondAByte) {
  for (const int zero : {1 << 21, -(1 << 21), (1 << 21) + 2, 1 << 23, -(1 << 23), 1 << 30}) {
    Call call("quantize_int8");
    std::vector<double> x;
    std::vector<int> expected;
    const int spacing = std::abs(zero) > (1 << 24) ? 128 : 1;
    for (const int q : {-128, -64, 0, 64, 127}) {
      if (q % spacing != 0) continue;
      x.push_back(double(q) - zero);
      expected.push_back(q);
    }
    x.insert(x.end(), {-2.0 * zero, kNan});
    expected.insert(expected.end(), {zero > 0 ? -128 : 127, zero > 0 ? 127 : -128});
    call.Set("x", Repeated(DType::kF32, x, 13)).Set("scale", Array(DType::kF32, {1}, {1}));
    call.Set("zero_point", Array(DType::kI32, {1}, {double(zero)}));
    ForEveryKernel(call, [&](const Results& r) { ExpectRepeated(r.find("q")->second, expected); });
  }
}

TEST(QuantizeInt8, MultipliesByTheRoundedInverse) {
  // x / 3 is a tie, 1.5, but x * f32(1/3) is above it.
  Call call("quantize_int8");
  call.Set("x", Repeated(DType::kF32, {7.5, 31.5}, 40)).Set("scale", Array(DType::kF32, {1}, {3}));
  const float r = 1 / 3.0f;
  ForEveryKernel(call, [&](const Results& results) {
    ExpectRepeated(results.find("q")->second,
                   {int(std::nearbyint(7.5f * r)), int(std::nearbyint(31.5f * r))});
  });
}

TEST(QuantizeInt8, RefusesAScaleWithoutAnInverseInCheckMode) {
  Call call("quantize_int8");
  call.Set("x", Array(DType::kF32, {1, 2}, {1, 2}));
  const std::pair<double, const char*> wrong[] = {
      {0, "0"}, {-0.0, "-0"}, {kInf, "inf"}, {-kInf, "-inf"}, {kNan, "nan"}};
  for (const auto& [scale, shown] : wrong) {
    call.Set("scale", Array(DType::kF32, {1}, {scale}));
    EXPECT_NO_THROW(call.Run());
    const Checking checking;
    EXPECT_EQ(call.Refusal(), "quantize_int8: scale[0] is " + std::string(shown) +
                                  ", but must be finite and not 0, because x is divided by it.");
  }
  const Checking checking;
  call.Set("scale", Array(DType::kF32, {1}, {-0.5}));
  EXPECT_EQ(call.Run()["q"], Array(DType::kI8, {1, 2}, {-2, -4}));
}

// Row of x, and what must come of it.
struct DynamicCase {
  std::vector<double> x;
  std::vector<int> q;
  double scale;
  int zero_point;
};
void ExpectDynamic(const DynamicCase& c, bool asymmetric, const char* range = "zero") {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Call call("quantize_int8_dynamic");
    call.Set("x", Repeated(dtype, c.x, 21)).Set("asymmetric", asymmetric).Set("range", range);
    ForEveryKernel(call, [&](const Results& r) {
      ExpectRepeated(r.find("q")->second, c.q);
      EXPECT_EQ(r.find("scale")->second.Get(0), c.scale);
      const Array& zero_point = r.find("zero_point")->second;
      ASSERT_EQ(zero_point.size(), asymmetric);
      if (asymmetric) {
        EXPECT_EQ(zero_point.GetInt(0), c.zero_point);
      }
    });
  }
}

TEST(QuantizeInt8Dynamic, SpansTheLargestElement) {
  ExpectDynamic({{-254, 1, 3, 127}, {-127, 0, 2, 64}, 2, 0}, false);
  ExpectDynamic({{0, 255, 51, 102}, {-128, 127, -77, -26}, 1, -128}, true);
  ExpectDynamic({{-255, 0, -51, -102}, {-128, 127, 76, 25}, 1, 127}, true);
  // The range always holds 0.
  ExpectDynamic({{255, 254}, {127, 126}, 1, -128}, true);
}

TEST(QuantizeInt8Dynamic, LeavesOutTheZeroWhereTheDataSetTheRange) {
  ExpectDynamic({{1, 2, 128, 256}, {-128, -127, -1, 127}, 1, -129}, true, "data");
  ExpectDynamic({{-256, -128, -1}, {-128, 0, 127}, 1, 128}, true, "data");
  ExpectDynamic({{-254, 1, 3, 127}, {-127, 0, 2, 64}, 2, 0}, false, "data");
  ExpectDynamic({{-155, 0, 100}, {-128, 27, 127}, 1, 27}, true, "data");
}

TEST(QuantizeInt8Dynamic, KeepsTheZeroInARowOfOneValue) {
  ExpectDynamic({{255}, {127}, 1, -128}, true, "data");
  ExpectDynamic({{-255}, {-128}, 1, 127}, true, "data");
  ExpectDynamic({{0, -0.0}, {-128, -128}, 1, -128}, true, "data");
  ExpectDynamic({{kNan, kNan}, {-128, -128}, 1, -128}, true, "data");
  ExpectDynamic({{kNan, 255}, {-128, 127}, 1, -128}, true, "data");
}

// Steps between 0 and the data that f32 counts, and one more.
TEST(QuantizeInt8Dynamic, CountsStepsFarFromZero) {
  for (const auto& [low, zero] : {std::pair<int, int>{1 << 22, -(1 << 22) - 128},
                                  {-(1 << 22), (1 << 22) - 128},
                                  {(1 << 22) + 1, 0}}) {
    Call call("quantize_int8_dynamic");
    call.Set("x", Repeated(DType::kF32, {double(low), double(low) + 255}, 40));
    call.Set("asymmetric", true).Set("range", "data");
    ForEveryKernel(call, [&, first = low, far = zero](const Results& r) {
      const bool is_own = far != 0;
      EXPECT_EQ(r.find("zero_point")->second.GetInt(0), is_own ? far : -128) << first;
      ExpectRepeated(r.find("q")->second, {is_own ? -128 : 127, 127});
    });
  }
}

TEST(QuantizeInt8Dynamic, GivesARowOfZerosAScaleOfOne) {
  ExpectDynamic({{0, -0.0}, {0, 0}, 1, 0}, false);
  ExpectDynamic({{0, -0.0}, {-128, -128}, 1, -128}, true);
  ExpectDynamic({{kNan, kNan}, {0, 0}, 1, 0}, false);
  ExpectDynamic({{kNan, kNan}, {-128, -128}, 1, -128}, true);
}

TEST(QuantizeInt8Dynamic, IgnoresNaN) {
  ExpectDynamic({{kNan, -127, 63}, {0, -127, 63}, 1, 0}, false);
  ExpectDynamic({{kNan, -155, 100}, {27, -128, 127}, 1, 27}, true);
}

TEST(QuantizeInt8Dynamic, GivesZerosForARowWithAnInfinity) {
  for (const double infinity : {kInf, -kInf}) {
    for (const bool asymmetric : {false, true}) {
      for (const char* range : {"zero", "data"}) {
        ExpectDynamic({{1, infinity, kNan, -5}, {0, 0, 0, 0}, kInf, 0}, asymmetric, range);
        ExpectDynamic({{infinity}, {0}, kInf, 0}, asymmetric, range);
      }
    }
  }
}

TEST(QuantizeInt8Dynamic, SurvivesRangesWithoutAnInverse) {
  const double tiny = 0x1p-133;  // 127 / tiny is infinite
  ExpectDynamic({{tiny, -tiny, 0}, {127, -127, 0}, double(float(tiny) / 127), 0}, false);
  ExpectDynamic({{tiny, 0}, {127, -128}, double(float(tiny) / 255), -128}, true);
  ExpectDynamic({{-tiny, 0}, {-128, 127}, double(float(tiny) / 255), 127}, true);
}

TEST(QuantizeInt8Dynamic, SurvivesARangeThatOverflows) {
  ExpectDynamic({{0x1.8p127, -0x1.8p127, 0}, {-128, -128, -128}, kInf, -128}, true);
}

TEST(DequantizeInt8, UndoesBothWaysOfQuantizing) {
  Array x(DType::kF32, {5, 100});
  for (std::int64_t i = 0; i < x.size(); ++i) x.Set(i, std::sin(double(i)) + double(i / 100) / 2);
  for (const bool asymmetric : {false, true}) {
    Call quantize("quantize_int8_dynamic");
    quantize.Set("x", x).Set("asymmetric", asymmetric);
    const Results r = quantize.Run();
    Call back("dequantize_int8");
    back.Set("q", r.find("q")->second).Set("scale", r.find("scale")->second);
    if (asymmetric) back.Set("zero_point", r.find("zero_point")->second);
    ForEveryKernel(back, [&](const Results& results) {
      const Array& y = results.find("x")->second;
      for (std::int64_t i = 0; i < x.size(); ++i) {
        const double step = r.find("scale")->second.Get(i / 100);
        ASSERT_NEAR(y.Get(i), x.Get(i), 1.001 * step) << i;
      }
    });
  }
}

TEST(DequantizeInt8, SubtractsZeroPointsFarBeyondAByteExactly) {
  for (const std::int64_t zero : {-2147483648LL, 2147483647LL, (1LL << 24) + 1, -(1LL << 22)}) {
    Call call("dequantize_int8");
    Array zero_point(DType::kI32, {1});
    zero_point.SetInt(0, zero);
    call.Set("q", Array(DType::kI8, {67}, {127})).Set("scale", Array(DType::kF32, {1}, {1}));
    call.Set("zero_point", zero_point);
    ForEveryKernel(call, [&](const Results& r) {
      for (const int i : {0, 66}) EXPECT_EQ(r.find("x")->second.Get(i), double(float(127 - zero)));
    });
  }
}

TEST(DequantizeInt8, RefusesATargetThatIsNoFloat) {
  Call call("dequantize_int8");
  call.Set("q", Array(DType::kI8, {2, 3})).Set("scale", Array(DType::kF32, {2, 1}, {1}));
  call.Set("to", DType::kI32);
  EXPECT_EQ(call.Refusal(), "dequantize_int8: to is i32, but must be f32, f16 or bf16.");
}

TEST(QuantizeInt8Dynamic, RefusesRowsOfNothing) {
  Call call("quantize_int8_dynamic");
  call.Set("x", Array(DType::kF32, {2, 0}));
  EXPECT_EQ(call.Refusal(),
            "quantize_int8_dynamic: d >= 1 must hold, but d is 0 (x is f32[2, 0]).");
}

}  // namespace
}  // namespace anyop::optest::quantize_int8_test
