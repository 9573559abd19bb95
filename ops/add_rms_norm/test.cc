// SPDX-License-Identifier: Apache-2.0
#include "ops/common/norm/testing.h"

namespace anyop::optest::add_rms_norm_test {
namespace {

const OpTest kAddRmsNorm{
    .op = "add_rms_norm",
    .tolerance = PerResult({{"sum", Exact()}}, Relative(6, 2, "d")),
    .row_invariant = true,
    .sizes = {"rows = 16, d = 576", "rows = 1, d = 4096"},
    .values = {{"weight_offset", {0.0, 1.0}}},
};
TEST(AddRmsNorm, MatchesItsReference) { CheckAll(kAddRmsNorm); }

// Kernels of one name are compiled for the same lanes.
TEST(AddRmsNorm, HasTheBitsOfAddFollowedByRmsNorm) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (std::int64_t d : {1, 37, 576, 1000}) {
      Call fused("add_rms_norm");
      Array x(dtype, {3, d}), residual(dtype, {3, d}), weight(dtype, {d});
      for (Array* a : {&x, &residual, &weight}) {
        for (std::int64_t i = 0; i < a->size(); ++i) a->Set(i, double(fused.Draw(-999, 999)) / 300);
      }
      fused.Set("x", x).Set("residual", residual).Set("weight", weight);
      for (const auto& [kernel, results] : fused.RunEveryKernel()) {
        Call add("add"), rms_norm("rms_norm");
        const Array sum = add.Set("x", x).Set("y", residual).Run(kernel)["z"];
        const Array y = rms_norm.Set("x", sum).Set("weight", weight).Run(kernel)["y"];
        EXPECT_EQ(results.find("sum")->second, sum) << kernel;
        EXPECT_EQ(results.find("y")->second, y) << kernel;
      }
    }
  }
}

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
}  // namespace anyop::optest::add_rms_norm_test
