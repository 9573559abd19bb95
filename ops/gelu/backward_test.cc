// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>

namespace anyop::optest::gelu_backward_test {
namespace {

// 4u times every term of G' made absolute; x*phi and its like are at most 2 in all.
Allowed Terms(const Call& call) {
  return
      [&call](const Element& e) { return 4 * kU * 3 * std::fabs(call.array("dy").Get(e.index)); };
}

const OpTest kGeluBackward{
    .op = "gelu_backward",
    .tolerance = Elementwise(4) + Tolerance(Terms),
    .row_invariant = true,
    .sizes = {"rows = 16, d = 3072"},
    .ranges = {{"x", {-12, 12}}},
};
TEST(GeluBackward, MatchesItsReference) { CheckAll(kGeluBackward); }

TEST(GeluBackward, IsZeroOrOneFarFromZero) {
  for (const char* kind : {"none", "tanh", "quick"}) {
    Call call("gelu_backward");
    call.Set("x", Array(DType::kF32, {4}, {-3e38, -200, 200, 3e38})).Set("kind", kind);
    call.Set("dy", Array(DType::kF32, {4}, {5}));
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      const Array& dx = results.find("dx")->second;
      EXPECT_EQ(dx, Array(DType::kF32, {4}, {0, 0, 5, 5})) << kernel << " " << kind;
    }
  }
}

}  // namespace
}  // namespace anyop::optest::gelu_backward_test
