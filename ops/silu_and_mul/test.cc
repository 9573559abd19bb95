// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <limits>

namespace anyop::optest::silu_and_mul_test {
namespace {

// 2^-126 times what stands beside sigma, for a sigma that small.
const OpTest kSiluAndMul{
    .op = "silu_and_mul",
    .tolerance = Elementwise(4) + Tolerance([](const Call& call) -> Allowed {
                   return [&x = call.array("x")](const Element& e) {
                     const std::int64_t d = x.dim(-1) / 2, row = e.index / d, j = e.index % d;
                     const double g = x.Get(row * 2 * d + j), u = x.Get(row * 2 * d + d + j);
                     return 0x1p-126 * std::fabs(g * u);
                   };
                 }),
    .row_invariant = true,
    .sizes = {"rows = 1, d = 1536", "rows = 16, d = 1536", "rows = 1, d = 14336"},
    .ranges = {{"x", {-20, 20}}},
};
TEST(SiluAndMul, MatchesItsReference) { CheckAll(kSiluAndMul); }

TEST(SiluAndMul, TakesTheGateFromTheFirstHalf) {
  Call call("silu_and_mul");
  call.Set("x", Array(DType::kF32, {1, 4}, {0, 40, 7, 2}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {1, 2}, {0, 80})) << kernel;
  }
}

TEST(SiluAndMul, GivesNaNForAGateOfMinusInfinityAndNothingForALargeNegativeOne) {
  Call call("silu_and_mul");
  const double infinity = std::numeric_limits<double>::infinity();
  call.Set("x", Array(DType::kF32, {1, 6}, {-infinity, -3e38, -200, 1, 1, 1}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& y = results.find("y")->second;
    EXPECT_TRUE(std::isnan(y.Get(0))) << kernel;
    EXPECT_EQ(y.Get(1), 0) << kernel;
    EXPECT_NEAR(y.Get(2), 0, 0x1p-118) << kernel;
  }
}

// 4u times every term made absolute, for the cancellation in 1 + g * (1 - s); 2^-126 times what
// stands beside a sigma that small.
double Allowance(const Element& e) {
  const Array &x = e.call.array("x"), &dy = e.call.array("dy");
  const std::int64_t d = x.dim(-1) / 2, row = e.index / (2 * d), j = e.index % (2 * d);
  const double g = x.Get(row * 2 * d + j % d), u = x.Get(row * 2 * d + d + j % d);
  const double w = std::fabs(dy.Get(row * d + j % d));
  const double s = 1 / (1 + std::exp(-g)), rest = 1 / (1 + std::exp(g));
  const double beside = j < d ? w * std::fabs(u) * (1 + std::fabs(g) * rest) : w * std::fabs(g);
  return 4 * kU * s * beside + 0x1p-126 * beside;
}

const OpTest kSiluAndMulBackward{
    .op = "silu_and_mul_backward",
    .tolerance = Elementwise(4) + Tolerance([](const Element& e) { return Allowance(e); }),
    .row_invariant = true,
    .sizes = {"rows = 1, d = 1536", "rows = 16, d = 1536", "rows = 1, d = 14336"},
    .ranges = {{"x", {-20, 20}}},
};
TEST(SiluAndMulBackward, MatchesItsReference) { CheckAll(kSiluAndMulBackward); }

TEST(SiluAndMulBackward, KeepsItsBitsForLargeGates) {
  OpTest test = kSiluAndMulBackward;
  test.ranges = {{"x", {-90, 90}}};
  CheckValues(test);
}

TEST(SiluAndMulBackward, TakesTheGateFromTheFirstHalf) {
  Call call("silu_and_mul_backward");
  call.Set("x", Array(DType::kF32, {1, 4}, {0, 40, 7, 2}));
  call.Set("dy", Array(DType::kF32, {1, 2}, {4, 1}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second, Array(DType::kF32, {1, 4}, {14, 2, 0, 40})) << kernel;
  }
}

}  // namespace
}  // namespace anyop::optest::silu_and_mul_test
