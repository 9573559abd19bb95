// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

namespace anyop::optest::cast_backward_test {
namespace {

const OpTest kCastBackward{.op = "cast_backward", .tolerance = Exact(), .row_invariant = true};
TEST(CastBackward, MatchesItsReference) { CheckAll(kCastBackward); }

TEST(CastBackward, GivesTheDtypeOfTheInput) {
  Call call("cast_backward");
  call.Set("dy", Array(DType::kF32, {2}, {1 + 0x1p-9, 1e39})).Set("x", Array(DType::kBF16, {2}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second, Array(DType::kBF16, {2}, {1, HUGE_VAL})) << kernel;
  }
}

}  // namespace
}  // namespace anyop::optest::cast_backward_test
