// SPDX-License-Identifier: Apache-2.0
#include "ops/common/norm/testing.h"

#include <cmath>
#include <limits>

namespace anyop::optest::rms_norm_test {
namespace {

const OpTest kRmsNorm{
    .op = "rms_norm",
    .tolerance = Relative(6, 2, "d"),
    .row_invariant = true,
    .sizes = {"rows = 16, d = 576", "rows = 1, d = 4096", "rows = 64, d = 128",
              "rows = 2, d = 9001"},
    .values = {{"weight_offset", {0.0, 1.0}}},
};
TEST(RmsNorm, MatchesItsReference) { CheckAll(kRmsNorm); }

TEST(RmsNorm, GivesZerosForARowOfZeros) {
  Call call("rms_norm");
  call.Set("x", Array(DType::kF32, {2, 3}, {0}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {2, 3}, {0})) << kernel;
  }
}

TEST(RmsNorm, GivesNaNForARowOfZerosWithoutEps) {
  Call call("rms_norm");
  call.Set("x", Array(DType::kF32, {1, 3}, {0})).Set("eps", 0.0);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(results.find("y")->second.Get(i))) << kernel;
  }
}

TEST(RmsNorm, GivesNaNAtAnInfinityAndZeroElsewhere) {
  Call call("rms_norm");
  Array x(DType::kF32, {1, 37}, {1});
  x.Set(20, std::numeric_limits<double>::infinity());
  call.Set("x", x);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& y = results.find("y")->second;
    for (int i = 0; i < 37; ++i) {
      EXPECT_TRUE(i == 20 ? std::isnan(y.Get(i)) : y.Get(i) == 0) << kernel << " " << i;
    }
  }
}

TEST(RmsNorm, NormalizesRowsOfAnyMagnitude) {
  for (const double size : {1e-40, 1e-25, 3e17, 1e19, 3e38}) {
    Array x(DType::kF32, {5, 300}, {size});
    for (std::int64_t i = 0; i < 300; ++i) x.Set(i, 1);  // a usual row among the others
    Call call("rms_norm");
    call.Set("x", x).Set("eps", 0.0);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      const Array& y = results.find("y")->second;
      for (std::int64_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(y.Get(i), 1, 2e-7) << kernel << " " << size;
      }
    }
  }
}

TEST(RmsNorm, RefusesANegativeEps) {
  Call call("rms_norm");
  call.Set("x", Array(DType::kF32, {1, 3}, {1})).Set("eps", -1.0);
  EXPECT_EQ(call.Refusal(), "rms_norm: eps >= 0 must hold, but eps is -1.0.");
}

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
}  // namespace anyop::optest::rms_norm_test
