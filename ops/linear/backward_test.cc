// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "optest/optest.h"

namespace anyop::optest::linear_backward_test {
namespace {

const OpTest kLinearBackward{
    .op = "linear_backward",
    .tolerance = PerResult(
        {{"dx", Sum("n", true)}, {"dweight", Sum("rows(x)", true)}, {"dbias", Sum("rows(x)")}}),
    .sizes = {"rows = 16, n = 50, k = 100", "rows = 70, n = 65, k = 33", "rows = 5, n = 520, k = 3",
              "rows = 520, n = 3, k = 5",                                  // 520: two runs of rows
              "rows = 3, n = 1030, k = 33", "rows = 1030, n = 5, k = 35",  // 1030: two chunks
              "rows = 4, n = 127, k = 2", "rows = 0, n = 5, k = 3", "rows = 2, n = 0, k = 3",
              "rows = 2, n = 3, k = 0"},
};
TEST(LinearBackward, MatchesItsReference) { CheckAll(kLinearBackward); }

// dy, x and weight of small whole numbers: every sum is exact in f32, in any order.
Call Example(DType dy_dtype, DType dtype, std::int64_t rows, std::int64_t n, std::int64_t k) {
  Call call("linear_backward");
  Array dy(dy_dtype, {rows, n}), x(dtype, {rows, k}), weight(dtype, {n, k});
  for (std::int64_t i = 0; i < dy.size(); ++i) dy.Set(i, double(i * 7 % 13 - 6));
  for (std::int64_t i = 0; i < x.size(); ++i) x.Set(i, double(i * 5 % 11 - 5));
  for (std::int64_t i = 0; i < weight.size(); ++i) weight.Set(i, double(i * 11 % 17 - 8));
  call.Set("dy", dy).Set("x", x).Set("weight", weight).Set("activation", "none");
  return call;
}

TEST(LinearBackward, LetsOneRowReachItsOwnGradientsOnly) {
  for (const double odd : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Call call = Example(DType::kF32, DType::kF32, 5, 40, 37);
    call.array("dy").Set({2, 7}, odd);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      const Array &dx = results.find("dx")->second, &dweight = results.find("dweight")->second;
      for (std::int64_t i = 0; i < dx.size(); ++i) {
        EXPECT_EQ(!std::isfinite(dx.Get(i)), i / 37 == 2) << kernel << " dx " << i;
      }
      for (std::int64_t i = 0; i < dweight.size(); ++i) {
        EXPECT_EQ(!std::isfinite(dweight.Get(i)), i / 37 == 7) << kernel << " dweight " << i;
      }
      EXPECT_FALSE(std::isfinite(results.find("dbias")->second.Get(7))) << kernel;
    }
  }
}

TEST(LinearBackward, KeepsAGradientInF32UnroundedBesideNarrowInputs) {
  Call call("linear_backward");
  call.Set("activation", "none").Set("x", Array(DType::kBF16, {1, 1}, {1}));
  call.Set("weight", Array(DType::kBF16, {2, 1}, {256, -256}));
  call.Set("dy", Array(DType::kF32, {1, 2}, {1.00390625, 1}));  // 1 + 2^-8, a tie in bf16
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second.Get(0), 1) << kernel;
  }
}

TEST(LinearBackward, RefusesAnActivation) {
  Call call = Example(DType::kF32, DType::kF32, 1, 2, 3);
  call.Set("activation", "relu");
  EXPECT_EQ(call.Refusal(), "linear_backward: activation is 'relu', but must be 'none'.");
}

TEST(LinearBackward, RefusesAGradientOfAnotherSize) {
  Call call = Example(DType::kF32, DType::kF32, 2, 3, 4);
  call.Set("dy", Array(DType::kF32, {2, 5}));
  EXPECT_EQ(call.Refusal(),
            "linear_backward: weight is f32[3, 4], but must be f32[5, 4] because dy is f32[2, 5].");
}

}  // namespace
}  // namespace anyop::optest::linear_backward_test
