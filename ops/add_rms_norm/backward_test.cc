// SPDX-License-Identifier: Apache-2.0
#include "ops/common/rms_norm_testing.h"

namespace anyop::optest::add_rms_norm_backward_test {
namespace {

const OpTest kAddRmsNormBackward{
    .op = "add_rms_norm_backward",
    .tolerance = PerResult({{"dweight", Sum("rows(sum)")}}, NormGradient("sum")),
    .sizes = {"rows = 16, d = 576", "rows = 300, d = 65"},
    .ranges = {{"eps", {1e-6, 1e-2}}},
    .values = {{"weight_offset", {0.0, 1.0}}},
};
TEST(AddRmsNormBackward, MatchesItsReference) { CheckAll(kAddRmsNormBackward); }

Call OneRow() {
  Call call("add_rms_norm_backward");
  call.Set("sum", Array(DType::kF32, {1, 4}, {1})).Set("eps", 0.0).Set("weight_offset", 0.0);
  return call;
}

TEST(AddRmsNormBackward, AddsTheGradientOfTheSum) {
  Call call = OneRow();
  const Array dsum(DType::kF32, {1, 4}, {1, 2, 3, 4});
  call.Set("dy", Array(DType::kF32, {1, 4}, {2})).Set("dsum", dsum);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second, dsum) << kernel;
    EXPECT_EQ(results.find("dresidual")->second, dsum) << kernel;
    EXPECT_EQ(results.find("dweight")->second, Array(DType::kF32, {4}, {2})) << kernel;
  }
}

TEST(AddRmsNormBackward, PassesTheGradientOfTheSumWhereNothingUsedTheNorm) {
  Call call = OneRow();
  const Array dsum(DType::kF32, {1, 4}, {1, 2, 3, 4});
  call.Set("dsum", dsum);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second, dsum) << kernel;
    EXPECT_EQ(results.find("dresidual")->second, dsum) << kernel;
    EXPECT_EQ(results.find("dweight")->second, Array(DType::kF32, {4}, {0})) << kernel;
  }
}

TEST(AddRmsNormBackward, GivesZerosWhereNothingWasUsed) {
  Call call = OneRow();
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    for (const auto& [name, gradient] : results) {
      EXPECT_EQ(gradient, Array(DType::kF32, gradient.shape(), {0})) << kernel << " " << name;
    }
  }
}

}  // namespace
}  // namespace anyop::optest::add_rms_norm_backward_test
