// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

namespace anyop::optest::wrap_index_test {
namespace {

void MakeRows(Call& call) {
  const std::int64_t n = call.size("n"), first = call.size("wraps") ? -n : 0;
  Array& index = call.array("index");
  for (std::int64_t i = 0; i < index.size(); ++i) index.SetInt(i, call.Draw(first, n - 1));
}

const OpTest kWrapIndex{
    .op = "wrap_index",
    .tolerance = Exact(),
    .values = {{"n", {1, 7, 49152}}},
    .prepare = MakeRows,
    .negatives_are_alike = false,
};
TEST(WrapIndex, MatchesItsReference) { CheckAll(kWrapIndex); }

Call Of(std::initializer_list<double> index, std::int64_t n, bool wraps = true) {
  Call call("wrap_index");
  call.Set("index", Array(DType::kI32, {std::int64_t(index.size())}, index));
  call.Set("n", n).Set("wraps", wraps);
  return call;
}

TEST(WrapIndex, CountsNegativeNumbersFromTheEnd) {
  EXPECT_EQ(Of({-1, 0, -5, 4}, 5).Run()["y"], Array(DType::kI64, {4}, {4, 0, 0, 4}));
  EXPECT_EQ(Of({0, 4}, 5, false).Run()["y"], Array(DType::kI64, {2}, {0, 4}));
}

TEST(WrapIndex, RefusesWhatIsNoRow) {
  EXPECT_EQ(Of({0, 5}, 5).Refusal(),
            "wrap_index: index[1] is 5, but must be -5 to 4, because there are 5 rows.");
  EXPECT_EQ(Of({-6}, 5).Refusal(),
            "wrap_index: index[0] is -6, but must be -5 to 4, because there are 5 rows.");
  EXPECT_EQ(Of({1, -1}, 5, false).Refusal(),
            "wrap_index: index[1] is -1, but must be 0 to 4, because there are 5 rows and none is "
            "counted from the end.");
  EXPECT_EQ(Of({0}, 0).Refusal(),
            "wrap_index: index[0] is 0, but must be absent, because there are 0 rows.");
}

}  // namespace
}  // namespace anyop::optest::wrap_index_test
