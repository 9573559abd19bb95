// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace anyop::optest::moe_permute_test {
namespace {

const OpTest kPermute{
    .op = "moe_permute",
    .sizes = {"t = 60, d = 33, k = 8, num_experts = 128", "t = 7, d = 64, k = 2, num_experts = 1"},
    .values = {{"num_experts", {1, 2, 7}}},
};
TEST(MoePermute, MatchesItsReference) { CheckAll(kPermute); }

const OpTest kPermuteBackward{
    .op = "moe_permute_backward",
    .tolerance = Sum("k"),
    .row_invariant = true,
    .row_variable = "t",
    .sizes = {"t = 20, d = 300, k = 8, m = 160"},
};
TEST(MoePermuteBackward, MatchesItsReference) { CheckAll(kPermuteBackward); }

const OpTest kUnpermute{
    .op = "moe_unpermute",
    .tolerance = Sum("k"),
    .row_invariant = true,
    .row_variable = "t",
    .sizes = {"t = 20, d = 300, k = 8, m = 160"},
};
TEST(MoeUnpermute, MatchesItsReference) { CheckAll(kUnpermute); }

// Each row to one pair at most, as moe_permute does: sums of a row that many pairs share, all of
// the same token, are biased.
void Scatter(Call& call) {
  Array& destination = call.array("destination");
  const std::int64_t m = call.array("x_sorted").dim(0);
  std::vector<std::int64_t> rows(std::size_t(std::max(m, destination.size())), -1);
  std::iota(rows.begin(), rows.begin() + m, 0);
  std::shuffle(rows.begin(), rows.end(), call.random());
  for (std::int64_t i = 0; i < destination.size(); ++i) {
    destination.SetInt(i, rows[std::size_t(i)]);
  }
}

const OpTest kUnpermuteBackward{
    .op = "moe_unpermute_backward",
    .tolerance = PerResult({{"dx_sorted", Sum("1")}, {"dweights", Sum("d")}}),
    .sizes = {"t = 20, d = 300, k = 8, m = 160"},
    .prepare = Scatter,
};
TEST(MoeUnpermuteBackward, MatchesItsReference) { CheckAll(kUnpermuteBackward); }

// Two tokens of three choices among four experts.
Call Permute() {
  Call call("moe_permute");
  call.Set("x", Array(DType::kBF16, {2, 2}, {1, 2, 3, 4}));
  call.Set("ids", Array(DType::kI64, {2, 3}, {2, -1, 0, 0, 2, 0})).Set("num_experts", 4);
  return call;
}

TEST(MoePermute, SortsPairsByExpertAndKeepsTheirOrder) {
  Results r = Permute().Run();
  EXPECT_EQ(r["source"], Array(DType::kI32, {6}, {2, 3, 5, 0, 4, -1}));
  EXPECT_EQ(r["destination"], Array(DType::kI32, {2, 3}, {3, -1, 0, 1, 4, 2}));
  EXPECT_EQ(r["offsets"], Array(DType::kI32, {5}, {0, 3, 3, 5, 5}));
  EXPECT_EQ(r["x_sorted"], Array(DType::kBF16, {6, 2}, {1, 2, 3, 4, 3, 4, 1, 2, 3, 4, 0, 0}));
}

TEST(MoePermute, TakesMinusOneEverywhere) {
  Results r = Permute().Set("ids", Array(DType::kI32, {2, 3}, {-1})).Run();
  EXPECT_EQ(r["source"], Array(DType::kI32, {6}, {-1}));
  EXPECT_EQ(r["destination"], Array(DType::kI32, {2, 3}, {-1}));
  EXPECT_EQ(r["offsets"], Array(DType::kI32, {5}, {0}));
  EXPECT_EQ(r["x_sorted"], Array(DType::kBF16, {6, 2}, {0}));
}

TEST(MoePermute, RefusesAnExpertThatIsNotThere) {
  const std::string text = Permute().Set("num_experts", 2).Refusal();
  EXPECT_EQ(text.rfind("moe_permute: ids[0, 0] is 2, but must be less than 2", 0), 0u) << text;
}

Call Unpermute() {
  Call call("moe_unpermute");
  call.Set("x_sorted", Array(DType::kF32, {3, 2}, {1, 2, 3, 4, NAN, NAN}));
  call.Set("destination", Array(DType::kI32, {3, 2}, {1, 0, -1, 1, -1, -1}));
  call.Set("weights", Array(DType::kF32, {3, 2}, {0.5, 2, 7, 3, 7, 7}));
  return call;
}

TEST(MoeUnpermute, WeighsAndAddsTheRowsOfAToken) {
  Call call = Unpermute();
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {3, 2}, {3.5, 6, 9, 12, 0, 0}))
        << kernel;
  }
  call.Remove("weights");
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {3, 2}, {4, 6, 3, 4, 0, 0})) << kernel;
  }
}

TEST(MoeUnpermute, AddsInRisingOrderOfTheChoices) {
  Call call = Unpermute();
  call.Set("x_sorted", Array(DType::kF32, {3, 1}, {0x1p30, -0x1p30, 1}));
  call.Set("destination", Array(DType::kI32, {1, 3}, {0, 1, 2})).Remove("weights");
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second.Get(0), 1) << kernel;
  }
}

TEST(MoeUnpermute, RefusesARowThatIsNotThere) {
  Call call = Unpermute();
  call.Set("destination", Array(DType::kI32, {3, 2}, {0, 0, 0, 3, 0, 0}));
  std::string text = call.Refusal();
  EXPECT_EQ(text.rfind("moe_unpermute: destination[1, 1] is 3, but must be less than 3", 0), 0u)
      << text;
}

TEST(MoeUnpermuteBackward, GivesZerosToRowsAndWeightsOfNoPair) {
  Call call("moe_unpermute_backward");
  call.Set("dy", Array(DType::kF32, {2, 2}, {1, 2, 10, 20}));
  call.Set("x_sorted", Array(DType::kF32, {3, 2}, {1, 1, 3, 5, NAN, NAN}));
  call.Set("destination", Array(DType::kI32, {2, 2}, {1, -1, 0, 1}));
  call.Set("weights", Array(DType::kF32, {2, 2}, {2, 7, 3, 0.5}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx_sorted")->second, Array(DType::kF32, {3, 2}, {30, 60, 7, 14, 0, 0}))
        << kernel;
    EXPECT_EQ(results.find("dweights")->second, Array(DType::kF32, {2, 2}, {13, 0, 30, 130}))
        << kernel;
  }
}

}  // namespace
}  // namespace anyop::optest::moe_permute_test
