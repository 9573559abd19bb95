// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <limits>

namespace anyop::optest::gelu_and_mul_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// 4u times g/2 * (1 + |erf|) * u with every term made absolute: 1 + erf and 1 + tanh cancel.
double Cancelled(const Element& e) {
  const Array& x = e.call.array("x");
  const std::int64_t d = x.dim(-1) / 2, row = e.index / d, j = e.index % d;
  const double g = x.Get(row * 2 * d + j), u = x.Get(row * 2 * d + d + j);
  return std::isfinite(g) ? (4 * kU + 0x1p-126) * std::fabs(g * u) : 0;
}

const OpTest kGeluAndMul{
    .op = "gelu_and_mul",
    .tolerance = Elementwise(4) + Tolerance([](const Element& e) { return Cancelled(e); }),
    .row_invariant = true,
    .sizes = {"rows = 16, d = 1536", "rows = 1, d = 16384"},
    .ranges = {{"x", {-12, 12}}},
};
TEST(GeluAndMul, MatchesItsReference) { CheckAll(kGeluAndMul); }

// 4u times every term made absolute; those of G' are at most 3 in all.
double CancelledSlope(const Element& e) {
  const Array &x = e.call.array("x"), &dy = e.call.array("dy");
  const std::int64_t d = x.dim(-1) / 2, row = e.index / (2 * d), j = e.index % (2 * d);
  const double g = x.Get(row * 2 * d + j % d), u = x.Get(row * 2 * d + d + j % d);
  const double w = std::fabs(dy.Get(row * d + j % d));
  return (4 * kU + 0x1p-126) * w * (j < d ? 3 * std::fabs(u) : std::fabs(g));
}

const OpTest kGeluAndMulBackward{
    .op = "gelu_and_mul_backward",
    .tolerance = Elementwise(4) + Tolerance([](const Element& e) { return CancelledSlope(e); }),
    .row_invariant = true,
    .sizes = {"rows = 16, d = 1536"},
    .ranges = {{"x", {-12, 12}}},
};
TEST(GeluAndMulBackward, MatchesItsReference) { CheckAll(kGeluAndMulBackward); }

Call Rows(const Array& x, const char* approximate) {
  Call call("gelu_and_mul");
  call.Set("x", x).Set("approximate", approximate);
  return call;
}

TEST(GeluAndMul, TakesTheGateFromTheFirstHalfAndHasTwoKinds) {
  const double expected[] = {0.84134475, 0.84119199};
  int i = 0;
  for (const char* kind : {"none", "tanh"}) {
    Call call = Rows(Array(DType::kF32, {1, 4}, {1, 40, 7, 2}), kind);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_NEAR(results.find("y")->second.Get(0), 7 * expected[i], 2e-6) << kernel << " " << kind;
      EXPECT_EQ(results.find("y")->second.Get(1), 80) << kernel << " " << kind;
    }
    ++i;
  }
}

TEST(GeluAndMul, CountsAGateOfMinusInfinityAsMinusZero) {
  for (const char* kind : {"none", "tanh"}) {
    Call call = Rows(Array(DType::kF32, {1, 8}, {-kInf, -3e38, 3e38, kInf, 3, 3, 0.5, -1}), kind);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {1, 4}, {-0.0, -0.0, 1.5e38, -kInf}))
          << kernel << " " << kind;
    }
  }
}

TEST(GeluAndMulBackward, GivesTheGateAndTheUpProjectionTheirOwnHalves) {
  for (const char* kind : {"none", "tanh"}) {
    Call call("gelu_and_mul_backward");
    call.Set("x", Array(DType::kF32, {1, 4}, {0, 40, 7, 2})).Set("approximate", kind);
    call.Set("dy", Array(DType::kF32, {1, 2}, {4, 1}));
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_EQ(results.find("dx")->second, Array(DType::kF32, {1, 4}, {14, 2, 0, 40}))
          << kernel << " " << kind;
    }
  }
}

TEST(GeluAndMul, RefusesTheQuickKind) {
  EXPECT_EQ(Rows(Array(DType::kF32, {1, 2}), "quick").Refusal(),
            "gelu_and_mul: approximate is 'quick', but must be 'none' or 'tanh'.");
}

}  // namespace
}  // namespace anyop::optest::gelu_and_mul_test
