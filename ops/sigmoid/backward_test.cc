// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

namespace anyop::optest::sigmoid_backward_test {
namespace {

const OpTest kSigmoidBackward{
    .op = "sigmoid_backward",
    .tolerance = Elementwise(2, /*cancels=*/true),
    .row_invariant = true,
    .sizes = {"rows = 1, d = 256"},
    .ranges = {{"y", {0, 1}}},
};
TEST(SigmoidBackward, MatchesItsReference) { CheckAll(kSigmoidBackward); }

TEST(SigmoidBackward, IsZeroWhereTheResultIsSaturated) {
  Call call("sigmoid_backward");
  call.Set("dy", Array(DType::kF32, {3}, {8})).Set("y", Array(DType::kF32, {3}, {0, 1, 0.5}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second, Array(DType::kF32, {3}, {0, 0, 2})) << kernel;
  }
}

}  // namespace
}  // namespace anyop::optest::sigmoid_backward_test
