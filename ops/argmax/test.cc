// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>

namespace anyop::optest::argmax_test {
namespace {

const OpTest kArgmax{
    .op = "argmax",
    .tolerance = Exact(),
    .row_invariant = true,
    .sizes = {"rows = 2, d = 49152", "rows = 3, d = 4097", "rows = 5, d = 2048",
              "rows = 2, d = 2049"},
};
TEST(Argmax, MatchesItsReference) { CheckAll(kArgmax); }

void ExpectIndex(const Array& x, std::int64_t index) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    Array row(dtype, {1, x.size()});
    for (std::int64_t i = 0; i < x.size(); ++i) row.Set(i, x.Get(i));
    Call call("argmax");
    call.Set("x", row);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_EQ(results.find("index")->second.GetInt(0), index) << kernel << " " << row;
    }
  }
}
// n elements `fill`, and `value` at each of the places.
Array Row(std::int64_t n, double fill, double value, std::initializer_list<std::int64_t> places) {
  Array row(DType::kF32, {n}, {fill});
  for (std::int64_t place : places) row.Set(place, value);
  return row;
}

TEST(Argmax, TakesTheLowestOfEqualsWhereverTheyStand) {
  for (std::int64_t n : {2, 7, 8, 40, 2048, 5000}) {
    ExpectIndex(Row(n, 1, 1, {}), 0);
    ExpectIndex(Row(n, 0, 2, {n / 2, n - 1}), n / 2);
    ExpectIndex(Row(n, -3, -2, {n - 1}), n - 1);
  }
  ExpectIndex(Row(9000, 0, 1, {2500, 2501, 7000}), 2500);
}

TEST(Argmax, TakesZeroAndMinusZeroForEqual) {
  ExpectIndex(Row(40, -0.0, 0.0, {20}), 0);
  ExpectIndex(Row(40, 0.0, -0.0, {0}), 0);
}

TEST(Argmax, RanksNaNBelowMinusInfinity) {
  for (std::int64_t n : {3, 40, 5000}) {
    ExpectIndex(Row(n, NAN, -HUGE_VAL, {n - 1}), n - 1);
    ExpectIndex(Row(n, NAN, -7, {1}), 1);
    ExpectIndex(Row(n, -HUGE_VAL, NAN, {0}), 1);
    ExpectIndex(Row(n, 1, NAN, {0}), 1);
  }
}

TEST(Argmax, GivesZeroForARowOfNaNOrOfMinusInfinity) {
  for (std::int64_t n : {1, 3, 40, 5000}) {
    ExpectIndex(Row(n, NAN, NAN, {}), 0);
    ExpectIndex(Row(n, -HUGE_VAL, -HUGE_VAL, {}), 0);
  }
}

}  // namespace
}  // namespace anyop::optest::argmax_test
