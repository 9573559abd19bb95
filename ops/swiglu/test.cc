// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace anyop::optest::swiglu_test {
namespace {

const double kNan = std::nan("");

// The terms of the formula for one pair of x, made absolute.
struct PairTerms {
  double gate, up, s, slope;  // |g'|, |u'| + |beta|, sigma, 1 + |alpha g'| (1 - s)
};
PairTerms TermsOf(const Call& call, std::int64_t row, std::int64_t j, std::int64_t d) {
  const Array& x = call.array("x");
  const bool halves = call.word("order") == "halves";
  double g = x.Get(row * 2 * d + (halves ? j : 2 * j));
  double u = std::fabs(x.Get(row * 2 * d + (halves ? d + j : 2 * j + 1)));
  if (call.given("limit")) {
    g = std::min(g, call.number("limit"));
    u = std::min(u, call.number("limit"));
  }
  const double z = call.number("alpha") * g;
  const double s = 1 / (1 + std::exp(-z)), rest = 1 / (1 + std::exp(z));
  return {std::fabs(g), u + std::fabs(call.number("beta")), s, 1 + std::fabs(z) * rest};
}

double Allowance(const Element& e) {
  const std::int64_t d = e.call.array("x").dim(-1) / 2;
  const PairTerms t = TermsOf(e.call, e.index / d, e.index % d, d);
  return (4 * kU * t.s + 0x1p-126) * t.gate * t.up;
}

double GradientAllowance(const Element& e) {
  const std::int64_t d = e.call.array("dy").dim(-1), row = e.index / (2 * d), j = e.index % (2 * d);
  const bool halves = e.call.word("order") == "halves", is_gate = halves ? j < d : j % 2 == 0;
  const std::int64_t pair = halves ? j % d : j / 2;
  const PairTerms t = TermsOf(e.call, row, pair, d);
  const double w = std::fabs(e.call.array("dy").Get(row * d + pair));
  return (4 * kU * t.s + 0x1p-126) * w * (is_gate ? t.up * t.slope : t.gate);
}

const OpTest kSwiglu{
    .op = "swiglu",
    .tolerance = Elementwise(4) + Tolerance([](const Element& e) { return Allowance(e); }),
    .row_invariant = true,
    .sizes = {"rows = 16, d = 2880", "rows = 1, d = 1536"},
    .ranges = {{"x", {-60, 60}}, {"limit", {0.5, 50}}},
    .values = {{"alpha", {1.0, 1.702, -0.3}}, {"beta", {0.0, 1.0, -0.7}}},
};
TEST(Swiglu, MatchesItsReference) { CheckAll(kSwiglu); }

const OpTest kSwigluBackward{
    .op = "swiglu_backward",
    .tolerance = Elementwise(4) + Tolerance([](const Element& e) { return GradientAllowance(e); }),
    .row_invariant = true,
    .sizes = {"rows = 16, d = 2880"},
    .ranges = {{"x", {-60, 60}}, {"limit", {0.5, 50}}},
    .values = {{"alpha", {1.0, 1.702, -0.3}}, {"beta", {0.0, 1.0, -0.7}}},
};
TEST(SwigluBackward, MatchesItsReference) { CheckAll(kSwigluBackward); }

// Gates of 40 and 30, for which sigma is 1, and up projections of 50 and -60.
Call Two(const char* order) {
  Call call("swiglu");
  const bool halves = std::string_view(order) == "halves";
  call.Set("x", halves ? Array(DType::kF32, {1, 4}, {40, 30, 50, -60})
                       : Array(DType::kF32, {1, 4}, {40, 50, 30, -60}));
  call.Set("order", order);
  return call;
}
void ExpectY(Call call, std::initializer_list<double> expected) {
  const auto n = std::int64_t(expected.size());
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {1, n}, expected)) << kernel;
  }
}

TEST(Swiglu, FindsGateAndUpInBothOrders) {
  for (const char* order : {"halves", "interleaved"}) {
    ExpectY(Two(order), {2000, -1800});
    ExpectY(Two(order).Set("limit", 35.0), {35 * 35, 30 * -35});
    ExpectY(Two(order).Set("beta", 3.0), {40 * 53, 30 * -57});
    ExpectY(Two(order).Set("alpha", 0.0), {1000, -900});
  }
}

TEST(Swiglu, LeavesTheGateWithoutALowerLimit) {
  Call call("swiglu");
  call.Set("x", Array(DType::kF32, {1, 2}, {-3, 1})).Set("limit", 2.0).Set("alpha", 0.0);
  ExpectY(call, {-1.5});
}

TEST(Swiglu, KeepsNaNUnderALimit) {
  Call call("swiglu");
  call.Set("x", Array(DType::kF32, {1, 4}, {kNan, 1, 1, kNan})).Set("limit", 2.0);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_TRUE(std::isnan(results.find("y")->second.Get(0))) << kernel;
    EXPECT_TRUE(std::isnan(results.find("y")->second.Get(1))) << kernel;
  }
}

TEST(SwigluBackward, PassesTheGradientAtTheLimitAndNotBeyondOrAtNaN) {
  Call call("swiglu_backward");
  // Gates 2 (the limit), 2.5, NaN, 1, 1, 1; up projections 1, 1, 1, -2, 2.5, -2.5.
  call.Set("x", Array(DType::kF32, {1, 12}, {2, 2.5, kNan, 1, 1, 1, 1, 1, 1, -2, 2.5, -2.5}));
  call.Set("dy", Array(DType::kF32, {1, 6}, {1})).Set("limit", 2.0).Set("order", "halves");
  call.Set("alpha", 0.0).Set("beta", 0.0);
  const Array expected(DType::kF32, {1, 12}, {0.5, 0, 0, -1, 1, -1, 1, 1, kNan, 0.5, 0, 0});
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& dx = results.find("dx")->second;
    for (int i = 0; i < 12; ++i) {
      if (i == 8) {
        EXPECT_TRUE(std::isnan(dx.Get(i))) << kernel;
      } else {
        EXPECT_EQ(dx.Get(i), expected.Get(i)) << kernel << " " << i;
      }
    }
  }
}

TEST(Swiglu, RefusesALimitThatIsNotPositive) {
  EXPECT_EQ(Two("halves").Set("limit", 0.0).Refusal(),
            "swiglu: limit > 0 must hold, but limit is 0.0.");
}

}  // namespace
}  // namespace anyop::optest::swiglu_test
