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

}  // namespace
}  // namespace anyop::optest::silu_and_mul_test
