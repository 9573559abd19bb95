// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <string>
#include <vector>

namespace anyop::optest::rotary_cache_2d_test {
namespace {

void Place(Call& call) {
  Array& positions = call.array("positions");
  for (std::int64_t i = 0; i < positions.size(); ++i) positions.SetInt(i, call.Draw(-1, 100));
}

const OpTest kRotaryCache2d{
    .op = "rotary_cache_2d",
    .tolerance = [](const Element& e) { return e.ulp(); },
    .row_invariant = true,
    .row_variable = "t",
    .sizes = {"t = 40, dim = 80", "t = 3, dim = 88"},
    .ranges = {{"base", {10, 500000}}},
    .values = {{"dim", {4, 12, 64}}},
    .prepare = Place,
};
TEST(RotaryCache2d, MatchesItsReference) { CheckAll(kRotaryCache2d); }

// Angles of the 4 pairs of a head of 8 elements at row 3, column 5.
void ExpectAngles(const char* frequencies, const Array& positions,
                  const std::vector<double>& angles) {
  Call call("rotary_cache_2d");
  call.Set("positions", positions).Set("dim", 8).Set("frequencies", frequencies);
  const Array cache = call.Run()["cache"];
  for (std::int64_t l = 0; l < 4; ++l) {
    EXPECT_NEAR(cache.Get(l), std::cos(angles[std::size_t(l)]), 1e-6) << l;
    EXPECT_NEAR(cache.Get(4 + l), std::sin(angles[std::size_t(l)]), 1e-6) << l;
  }
}

TEST(RotaryCache2d, TurnsTheFirstHalfByTheRowAndTheSecondByTheColumn) {
  const Array place(DType::kI32, {1, 2}, {3, 5});
  ExpectAngles("shared", place, {3, 0.03, 5, 0.05});        // 10000^-(4j/8)
  ExpectAngles("alternate", place, {3, 0.03, 0.5, 0.005});  // 10000^-((4j+2)/8) for columns
}

TEST(RotaryCache2d, GivesANegativePositionTheAngleZero) {
  ExpectAngles("shared", Array(DType::kI64, {1, 2}, {-1, 5}), {0, 0, 5, 0.05});
  ExpectAngles("shared", Array(DType::kI64, {1, 2}, {-1, -1}), {0, 0, 0, 0});
}

TEST(RotaryCache2d, RoundsTheAngleToF32) {
  Call call("rotary_cache_2d");
  call.Set("positions", Array(DType::kI32, {1, 2}, {49999, 0})).Set("dim", 8);
  call.Set("base", 7.0);
  const float angle = 49999.0f * float(std::pow(7.0, -0.5));
  EXPECT_EQ(call.Run()["cache"].Get(1), double(float(std::cos(double(angle)))));
}

TEST(RotaryCache2d, RefusesATableThatWouldNotBeFinite) {
  const auto call = [](double base, const char* frequencies, int row, int column) {
    Call made("rotary_cache_2d");
    made.Set("positions", Array(DType::kI64, {2, 2}, {0, -1, double(row), double(column)}));
    return made.Set("dim", 8).Set("base", base).Set("frequencies", frequencies);
  };
  const auto text = [](const char* pair, const char* frequency, const char* base) {
    return std::string("rotary_cache_2d: the frequency of pair ") + pair + " is " + frequency +
           " with base " + base +
           ", but it and its multiples up to the last position must be finite, because the table "
           "holds their cosines.";
  };
  EXPECT_EQ(call(1e-100, "shared", -1, 0).Refusal(), text("1", "inf", "1e-100"));
  // Frequencies 1 and 1e38 in both halves; then 1e-76^-(2/8) and 1e-76^-(6/8) in the second.
  for (int i = 0; i < 16; ++i) {
    EXPECT_TRUE(std::isfinite(call(1e-76, "shared", 3, 3).Run()["cache"].Get(i))) << i;
  }
  const std::string large = std::to_string(float(1e38));
  EXPECT_EQ(call(1e-76, "shared", 4, 3).Refusal(), text("1", large.c_str(), "1e-76"));
  EXPECT_EQ(call(1e-76, "shared", 3, 4).Refusal(), text("3", large.c_str(), "1e-76"));
  EXPECT_EQ(call(1e-76, "alternate", 3, 3).Refusal(), text("3", "inf", "1e-76"));
  EXPECT_EQ(call(5e-324, "alternate", 0, 0).Refusal(), text("1", "inf", "4.94066e-324"));
}

TEST(RotaryCache2d, RefusesAWidthThatIsNoMultipleOfFour) {
  Call call("rotary_cache_2d");
  call.Set("positions", Array(DType::kI32, {1, 2})).Set("dim", 6);
  EXPECT_EQ(call.Refusal(), "rotary_cache_2d: dim % 4 == 0 must hold, but dim is 6.");
}

}  // namespace
}  // namespace anyop::optest::rotary_cache_2d_test
