// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <limits>
#include <vector>

namespace anyop::optest::softmax_test {
namespace {

const OpTest kSoftmax{
    .op = "softmax",
    .tolerance = Relative(8, 1, "d"),
    .row_invariant = true,
    .sizes = {"rows = 16, d = 256", "rows = 9, d = 2048", "rows = 3, d = 2049",
              "rows = 2, d = 49152", "rows = 5, d = 4093"},
    .ranges = {{"x", {-30, 30}}},
    .values = {{"scale", {1.0, 0.125, -1.5, 0.0}}},
};
TEST(Softmax, MatchesItsReference) { CheckAll(kSoftmax); }

// Products so large that rounding a difference of two loses bits.
TEST(Softmax, MatchesItsReferenceForLargeProducts) {
  OpTest test = kSoftmax;
  test.ranges = {{"x", {560, 620}}};
  test.values = {{"scale", {1.0, 1.1f, -0.9f}}};
  CheckValues(test);
}

// From 2^24 on differences are of elements, not of products: the rounding of one product may be
// more than the largest exponent, and the product itself infinite.
TEST(Softmax, MatchesItsReferenceForProductsOfAnyMagnitude) {
  OpTest test = kSoftmax;
  test.ranges = {{"x", {1, 1.00001}}};
  for (const double scale : {1.7e7, 3e8, -3.3e8, 1e12, -1e30}) {
    test.values = {{"scale", {scale}}};
    CheckValues(test);
  }
  Call call("softmax");
  call.Set("x", Array(DType::kF32, {1, 4}, {3e38, -3e38, 3e38, 1}));
  call.Set("scale", 1.7);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {1, 4}, {0.5, 0, 0.5, 0})) << kernel;
  }
}

// Results far below the largest are subnormal: they too are rounded once.
TEST(Softmax, MatchesItsReferenceWhereResultsAreSubnormal) {
  OpTest test = kSoftmax;
  test.values = {{"scale", {1.0}}};
  for (const double top : {52.0, 630.0}) {
    test.ranges = {{"x", {top - 104, top}}};
    CheckValues(test);
  }
}

// The sum of a row is 1 but for the roundings of its exponentials, of their sum and of the results.
TEST(Softmax, RowsSumToOne) {
  for (const std::int64_t d : {1, 2, 17, 256, 2049, 49152}) {
    Call call("softmax", std::uint64_t(d));
    Array x(DType::kF32, {3, d});
    for (std::int64_t i = 0; i < x.size(); ++i) x.Set(i, double(call.Draw(-8000, 8000)) / 1000);
    call.Set("x", x);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      const Array& y = results.find("y")->second;
      for (std::int64_t r = 0; r < 3; ++r) {
        double sum = 0;
        for (std::int64_t j = 0; j < d; ++j) sum += y.Get(r * d + j);
        EXPECT_NEAR(sum, 1, (8 + 2 * std::sqrt(double(d))) * kU) << kernel << ", d " << d;
      }
    }
  }
}

TEST(Softmax, GivesZeroForMinusInfinity) {
  const double infinity = std::numeric_limits<double>::infinity();
  Call call("softmax");
  call.Set("x", Array(DType::kF32, {1, 3}, {1, -infinity, 1}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {1, 3}, {0.5, 0, 0.5})) << kernel;
  }
}

TEST(Softmax, GivesNaNThroughoutForARowWithNaNOrInfinity) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (double odd : {nan, infinity, -infinity}) {
    for (int place : {0, 5, 17, 39}) {
      for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
        Call call("softmax");
        // A row of -inf only, else one odd element among ones.
        Array x(dtype, {1, 40}, {odd == -infinity ? -infinity : 1});
        x.Set(place, odd);
        call.Set("x", x);
        for (const auto& [kernel, results] : call.RunEveryKernel()) {
          const Array& y = results.find("y")->second;
          for (int i = 0; i < 40; ++i) EXPECT_TRUE(std::isnan(y.Get(i))) << kernel << " " << i;
        }
      }
    }
  }
}

TEST(Softmax, DoesNotOverflow) {
  Call call("softmax");
  call.Set("x", Array(DType::kF32, {1, 2}, {3e38, -3e38}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {1, 2}, {1, 0})) << kernel;
  }
}

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
}  // namespace anyop::optest::softmax_test
