// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <limits>

namespace anyop::optest::gelu_test {
namespace {

// Where x <= 0 the error is absolute: 1 + erf and 1 + tanh cancel.
Allowed Cancelled(const Call& call) {
  return [&x = call.array("x")](const Element& e) {
    const double v = x.Get(e.index);
    return v > 0 || !std::isfinite(v) ? 0 : 4 * kU * std::fabs(v);
  };
}

const OpTest kGelu{
    .op = "gelu",
    .tolerance = Elementwise(4) + Tolerance(Cancelled),
    .row_invariant = true,
    .sizes = {"rows = 16, d = 3072"},
    .ranges = {{"x", {-12, 12}}},
};
TEST(Gelu, MatchesItsReference) { CheckAll(kGelu); }

TEST(Gelu, NeverOverflows) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const char* kind : {"none", "tanh", "quick"}) {
    Call call("gelu");
    call.Set("x", Array(DType::kF32, {6}, {-infinity, -3e38, -200, 200, 3e38, infinity}));
    call.Set("kind", kind);
    const Array expected(DType::kF32, {6}, {-0.0, -0.0, -0.0, 200, 3e38, infinity});
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_EQ(results.find("y")->second, expected) << kernel << " " << kind;
    }
  }
}

TEST(Gelu, HasThreeKinds) {
  const double expected[] = {0.84134475, 0.84119199, 0.84579577};
  int i = 0;
  for (const char* kind : {"none", "tanh", "quick"}) {
    Call call("gelu");
    call.Set("x", Array(DType::kF32, {1}, {1})).Set("kind", kind);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_NEAR(results.find("y")->second.Get(0), expected[i], 2e-7) << kernel << " " << kind;
    }
    ++i;
  }
}

}  // namespace
}  // namespace anyop::optest::gelu_test
