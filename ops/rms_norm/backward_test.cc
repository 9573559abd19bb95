// SPDX-License-Identifier: Apache-2.0
#include "ops/common/rms_norm_testing.h"

namespace anyop::optest::rms_norm_backward_test {
namespace {

const OpTest kRmsNormBackward{
    .op = "rms_norm_backward",
    .tolerance = PerResult({{"dweight", Sum("rows(x)")}}, NormGradient("x")),
    .sizes = {"rows = 16, d = 576", "rows = 1, d = 4096", "rows = 300, d = 65"},
    .ranges = {{"eps", {1e-6, 1e-2}}},
    .values = {{"weight_offset", {0.0, 1.0}}},
};
TEST(RmsNormBackward, MatchesItsReference) { CheckAll(kRmsNormBackward); }

// The gradient of a vector of constant length along itself.
TEST(RmsNormBackward, IsZeroAlongTheRow) {
  Call call("rms_norm_backward");
  call.Set("dy", Array(DType::kF32, {1, 4}, {2})).Set("x", Array(DType::kF32, {1, 4}, {1}));
  call.Set("eps", 0.0).Set("weight_offset", 0.0);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second, Array(DType::kF32, {1, 4}, {0})) << kernel;
    EXPECT_EQ(results.find("dweight")->second, Array(DType::kF32, {4}, {2})) << kernel;
  }
}

TEST(RmsNormBackward, GivesZerosForNoRows) {
  Call call("rms_norm_backward");
  call.Set("dy", Array(DType::kF32, {0, 4})).Set("x", Array(DType::kF32, {0, 4}));
  call.Set("eps", 0.0).Set("weight_offset", 0.0);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dweight")->second, Array(DType::kF32, {4}, {0})) << kernel;
  }
}

// s^3 alone would be infinite.
TEST(RmsNormBackward, DoesNotOverflowForTinyRows) {
  Call call("rms_norm_backward");
  call.Set("dy", Array(DType::kF32, {1, 2}, {1, 0}))
      .Set("x", Array(DType::kF32, {1, 2}, {0x1p-50}));
  call.Set("eps", 0.0).Set("weight_offset", 0.0);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second, Array(DType::kF32, {1, 2}, {0x1p49, -0x1p49})) << kernel;
  }
}

}  // namespace
}  // namespace anyop::optest::rms_norm_backward_test
