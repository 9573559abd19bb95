// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <limits>

namespace anyop::optest::relu2_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// f32: the bits of the rounded square. Its 16-bit form rounds an f32, subnormals of bf16 twice.
const OpTest kRelu2{
    .op = "relu2",
    .tolerance =
        [](const Element& e) { return e.dtype == DType::kF32 ? -1 : 0.51 * e.ulp() + 0x1p-126; },
    .row_invariant = true,
    .sizes = {"rows = 16, d = 3000"},
};
TEST(Relu2, MatchesItsReference) { CheckAll(kRelu2); }

const OpTest kRelu2Backward{
    .op = "relu2_backward",
    .tolerance = Elementwise(1),
    .row_invariant = true,
    .sizes = {"rows = 16, d = 3000"},
};
TEST(Relu2Backward, MatchesItsReference) { CheckAll(kRelu2Backward); }

TEST(Relu2, GivesPlusZeroForMinusZeroAndNegatives) {
  Call call("relu2");
  call.Set("x", Array(DType::kF32, {6}, {-0.0, 0.0, -3, -kInf, 3, kInf}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {6}, {0, 0, 0, 0, 9, kInf})) << kernel;
  }
}

TEST(Relu2, KeepsNaN) {
  Call call("relu2");
  call.Set("x", Array(DType::kBF16, {3}, {std::nan("")}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(results.find("y")->second.Get(i))) << kernel;
  }
}

TEST(Relu2, OverflowsToInfinity) {
  Call call("relu2");
  call.Set("x", Array(DType::kF16, {3}, {255.875, 256, -256}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF16, {3}, {65472, kInf, 0})) << kernel;
  }
}

TEST(Relu2Backward, DoublesLast) {
  Call call("relu2_backward");
  call.Set("x", Array(DType::kF32, {3}, {3e38, -1, 2}));
  call.Set("dy", Array(DType::kF32, {3}, {0.25, 5, 5}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second, Array(DType::kF32, {3}, {1.5e38, 0, 20})) << kernel;
  }
}

}  // namespace
}  // namespace anyop::optest::relu2_test
