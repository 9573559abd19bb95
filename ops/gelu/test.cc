// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <string_view>

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

// G' with every term made absolute.
double AbsoluteDerivative(double x, std::string_view kind) {
  const double size = std::fabs(x);
  if (kind == "quick") {
    const double q = 1 / (1 + std::exp(-1.702 * x));
    return q * (1 + 1.702 * size * (1 + q));
  }
  if (kind == "none") {
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    return (1 + std::erf(size / std::numbers::sqrt2)) / 2 + size * density;
  }
  const double a = std::sqrt(2 / std::numbers::pi),
               w = std::tanh(a * (size + 0.044715 * x * x * size));
  return (1 + w) / 2 + size / 2 * (1 - w * w) * a * (1 + 3 * 0.044715 * x * x);
}

// 4u times that, for 1 + erf and 1 + tanh cancel, and so does what is added to q.
Allowed Terms(const Call& call) {
  return [&call](const Element& e) {
    const double x = call.array("x").Get(e.index);
    if (!std::isfinite(x)) return 0.0;
    const double dy = std::fabs(call.array("dy").Get(e.index));
    return 4 * kU * dy * AbsoluteDerivative(x, call.word("kind"));
  };
}

const OpTest kGeluBackward{
    .op = "gelu_backward",
    .tolerance = Elementwise(4) + Tolerance(Terms),
    .row_invariant = true,
    .sizes = {"rows = 16, d = 3072"},
    .ranges = {{"x", {-30, 30}}},
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
}  // namespace anyop::optest::gelu_test
