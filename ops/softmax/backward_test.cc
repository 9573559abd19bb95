// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <vector>

namespace anyop::optest::softmax_backward_test {
namespace {

// D(d): the terms of an element are those of its difference.
Tolerance SumOfTerms() {
  return [](const Call& call) -> Allowed {
    const Array &dy = call.array("dy"), &y = call.array("y");
    const std::int64_t d = y.dim(-1);
    std::vector<double> sums(std::size_t(y.rows()), 0);
    for (std::int64_t i = 0; i < y.size(); ++i) {
      sums[std::size_t(i / d)] += std::fabs(dy.Get(i) * y.Get(i));
    }
    const double scale = std::fabs(call.number("scale")), k = (4 + 2 * std::sqrt(double(d))) * kU;
    return [&dy, &y, sums, scale, k, d](const Element& e) {
      const double terms = std::fabs(dy.Get(e.index)) + sums[std::size_t(e.index / d)];
      return 0.51 * e.ulp() + k * scale * std::fabs(y.Get(e.index)) * terms + 0x1p-126;
    };
  };
}

const OpTest kSoftmaxBackward{
    .op = "softmax_backward",
    .tolerance = SumOfTerms(),
    .row_invariant = true,
    .sizes = {"rows = 16, d = 256", "rows = 3, d = 2049"},
    .ranges = {{"y", {0, 1}}},
    .values = {{"scale", {1.0, 0.125, -1.5, 0.0}}},
};
TEST(SoftmaxBackward, MatchesItsReference) { CheckAll(kSoftmaxBackward); }

TEST(SoftmaxBackward, TakesTheMeanOff) {
  Call call("softmax_backward");
  call.Set("dy", Array(DType::kF32, {1, 2}, {3, 1})).Set("y", Array(DType::kF32, {1, 2}, {0.5}));
  call.Set("scale", 4.0);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second, Array(DType::kF32, {1, 2}, {2, -2})) << kernel;
  }
}

}  // namespace
}  // namespace anyop::optest::softmax_backward_test
