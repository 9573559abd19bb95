// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

namespace anyop::optest::add_backward_test {
namespace {

// dy is a sum over the rows where y is one row for all.
const OpTest kAddBackward{
    .op = "add_backward",
    .tolerance = PerResult({{"dy", Tolerance([](const Call& call) -> Allowed {
                               const bool is_row = call.size("rank(y) - rank(dz)") < 0;
                               return (is_row ? Sum("rows(dz)") : Exact()).For(call);
                             })}}),
    .sizes = {"rows = 300, d = 65", "rows = 33, d = 600"},
};
TEST(AddBackward, MatchesItsReference) { CheckAll(kAddBackward); }

TEST(AddBackward, AddsTheRowsForOneRow) {
  Call call("add_backward");
  call.Set("dz", Array(DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6}));
  call.Set("y", Array(DType::kF32, {2}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second, call.array("dz")) << kernel;
    EXPECT_EQ(results.find("dy")->second, Array(DType::kF32, {2}, {9, 12})) << kernel;
  }
}

// So large that the columns of the last sum are cut as well.
TEST(AddBackward, HasTheSameBitsForManyRowsOnAnyThreads) {
  OpTest test = kAddBackward;
  test.sizes = {"rows = 33, d = 4100"};
  CheckThreadInvariance(test);
}

TEST(AddBackward, GivesZerosForNoRows) {
  Call call("add_backward");
  call.Set("dz", Array(DType::kBF16, {0, 3})).Set("y", Array(DType::kBF16, {3}, {1, 2, 3}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dy")->second, Array(DType::kBF16, {3}, {0})) << kernel;
  }
}

TEST(AddBackward, RefusesIntegers) {
  Call call("add_backward");
  call.Set("dz", Array(DType::kI32, {3, 2})).Set("y", Array(DType::kI32, {2}));
  EXPECT_EQ(call.Refusal(),
            "add_backward: dz is i32[3, 2], but T must be f32, f16 or bf16. Try a cast.");
}

}  // namespace
}  // namespace anyop::optest::add_backward_test
