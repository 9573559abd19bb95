// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

namespace anyop::optest::mul_backward_test {
namespace {

// dy is a sum over the rows where y is one row for all.
const OpTest kMulBackward{
    .op = "mul_backward",
    .tolerance = PerResult({{"dy", Tolerance([](const Call& call) -> Allowed {
                               const bool is_row = call.size("rank(y) - rank(dz)") < 0;
                               return (is_row ? Sum("rows(dz)") : Exact()).For(call);
                             })}}),
    .sizes = {"rows = 300, d = 65", "rows = 33, d = 600"},
};
TEST(MulBackward, MatchesItsReference) { CheckAll(kMulBackward); }

TEST(MulBackward, GivesEachFactorTheOther) {
  Call call("mul_backward");
  call.Set("dz", Array(DType::kF32, {2, 2}, {1, 10, 1, 10}));
  call.Set("x", Array(DType::kF32, {2, 2}, {1, 2, 3, 4}));
  call.Set("y", Array(DType::kF32, {2, 2}, {5, 6, 7, 8}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second, Array(DType::kF32, {2, 2}, {5, 60, 7, 80})) << kernel;
    EXPECT_EQ(results.find("dy")->second, Array(DType::kF32, {2, 2}, {1, 20, 3, 40})) << kernel;
  }
  call.Set("y", Array(DType::kF32, {2}, {5, 6}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second, Array(DType::kF32, {2, 2}, {5, 60, 5, 60})) << kernel;
    EXPECT_EQ(results.find("dy")->second, Array(DType::kF32, {2}, {4, 60})) << kernel;
  }
}

}  // namespace
}  // namespace anyop::optest::mul_backward_test
