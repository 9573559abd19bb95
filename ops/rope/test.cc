// SPDX-License-Identifier: Apache-2.0
#include "ops/common/rotation/testing.h"

namespace anyop::optest::rope_test {
namespace {

const OpTest kRope{
    .op = "rope",
    .tolerance = [](const Element& e) { return RotationAllowance(e, e.call.array("x")); },
    .row_invariant = true,
    .row_variable = "t",
    .sizes = {"t = 1, h = 9, d = 64, p = 100, r = 64, offset = 0",
              "t = 5, h = 4, d = 192, p = 33, r = 64, offset = 128",
              "t = 3, h = 2, d = 96, p = 3, r = 70, offset = 13"},
    .values = {{"offset", {0, 1, 2, 5}}},
};
TEST(Rope, MatchesItsReference) { CheckAll(kRope); }

Call OneHead() {
  Call call("rope");
  call.Set("positions", Array(DType::kI64, {1}, {0}));
  call.Set("x", Array(DType::kF32, {1, 1, 6}, {9, 1, 2, 3, 4, 8}));
  call.Set("cos_sin_cache", Array(DType::kF32, {1, 4}, {0.5, 2, 0.25, 3}));
  call.Set("offset", 1).Set("style", "gptj");
  return call;
}

TEST(Rope, CopiesTheUnrotatedPartAndLeavesItsInput) {
  Call call = OneHead();
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second,
              Array(DType::kF32, {1, 1, 6}, {9, 0.5 - 0.5, 1 + 0.25, 6 - 12, 8 + 9, 8}))
        << kernel;
  }
  EXPECT_EQ(call.array("x"), Array(DType::kF32, {1, 1, 6}, {9, 1, 2, 3, 4, 8}));
}

TEST(Rope, CopiesATokenOfPositionMinusOne) {
  Call call = OneHead();
  call.Set("positions", Array(DType::kI64, {1}, {-1}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, call.array("x")) << kernel;
  }
}

const OpTest kRopeBackward{
    .op = "rope_backward",
    .tolerance = [](const Element& e) { return RotationAllowance(e, e.call.array("dy")); },
    .row_invariant = true,
    .row_variable = "t",
    .sizes = {"t = 1, h = 9, d = 64, p = 100, r = 64, offset = 0",
              "t = 3, h = 2, d = 96, p = 3, r = 70, offset = 13"},
    .values = {{"offset", {0, 1, 2, 5}}},
};
TEST(RopeBackward, MatchesItsReference) { CheckAll(kRopeBackward); }

TEST(RopeBackward, RotatesBack) {
  Call call("rope_backward");
  call.Set("dy", Array(DType::kF32, {1, 1, 3}, {9, 1, 2}));
  call.Set("cos_sin_cache", Array(DType::kF32, {1, 2}, {0.5, 4}));
  call.Set("offset", 1).Set("style", "gptj").Set("inverse", false);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second, Array(DType::kF32, {1, 1, 3}, {9, 0.5 + 8, 1 - 4}))
        << kernel;
  }
}

}  // namespace
}  // namespace anyop::optest::rope_test
