// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <limits>

namespace anyop::optest::sigmoid_test {
namespace {

// Below 2^-126 the error is absolute.
const OpTest kSigmoid{
    .op = "sigmoid",
    .tolerance = Elementwise(4) +
                 Tolerance([](const Element& e) { return e.exact < 0x1p-125 ? 0x1p-126 : 0; }),
    .row_invariant = true,
    .sizes = {"rows = 1, d = 256"},
    .ranges = {{"x", {-100, 100}}},
};
TEST(Sigmoid, MatchesItsReference) { CheckAll(kSigmoid); }

TEST(Sigmoid, NeverOverflows) {
  const double infinity = std::numeric_limits<double>::infinity();
  Call call("sigmoid");
  call.Set("x", Array(DType::kF32, {8}, {-infinity, -3e38, -200, -0.0, 0, 200, 3e38, infinity}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& y = results.find("y")->second;
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(y.Get(i), 0, 0x1p-126) << kernel;
    for (int i = 3; i < 5; ++i) EXPECT_EQ(y.Get(i), 0.5) << kernel;
    for (int i = 5; i < 8; ++i) EXPECT_EQ(y.Get(i), 1) << kernel;
    EXPECT_EQ(y.Get(0), 0) << kernel;
  }
}

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
}  // namespace anyop::optest::sigmoid_test
