// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace anyop::optest::layer_norm_test {
namespace {

// What the error of normalized rows in f32 is relative to.
struct NormalizedRow {
  double mean = 0, scale = 0, largest = 0;

  double z(double x) const { return (x - mean) * scale; }
  // |z| + s * max|x|, to which the error of z is relative.
  double error(double x) const { return std::fabs(z(x)) + scale * largest; }
};

std::vector<NormalizedRow> NormalizedRows(const Call& call) {
  const Array& x = call.array("x");
  const std::int64_t d = x.dim(-1);
  std::vector<NormalizedRow> rows(std::size_t(x.rows()));
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    NormalizedRow& row = rows[std::size_t(r)];
    double squares = 0;
    for (std::int64_t j = 0; j < d; ++j) {
      row.mean += x.Get(r * d + j) / double(d);
      row.largest = std::max(row.largest, std::fabs(x.Get(r * d + j)));
    }
    for (std::int64_t j = 0; j < d; ++j) squares += std::pow(x.Get(r * d + j) - row.mean, 2);
    row.scale = 1 / std::sqrt(squares / double(d) + call.number("eps"));
  }
  return rows;
}

// (8 + 2 sqrt(d)) u * |weight| * (|z| + s * max|x|)
Allowed Rounding(const Call& call) {
  const Array& x = call.array("x");
  const std::int64_t d = x.dim(-1);
  const double k = (8 + 2 * std::sqrt(double(d))) * kU;
  return [&call, k, d, rows = NormalizedRows(call)](const Element& e) {
    const NormalizedRow& row = rows[std::size_t(e.index / d)];
    const double w = call.given("weight") ? std::fabs(call.array("weight").Get(e.index % d)) : 1;
    return 0.51 * e.ulp() + k * w * row.error(call.array("x").Get(e.index)) + 0x1p-126;
  };
}

const OpTest kLayerNorm{
    .op = "layer_norm",
    .tolerance = Rounding,
    .row_invariant = true,
    .sizes = {"rows = 16, d = 1280", "rows = 16, d = 128", "rows = 1, d = 768"},
};
TEST(LayerNorm, MatchesItsReference) { CheckAll(kLayerNorm); }

TEST(LayerNorm, GivesTheBiasForAConstantRow) {
  Call call("layer_norm");
  call.Set("x", Array(DType::kF32, {2, 4}, {3})).Set("weight", Array(DType::kF32, {4}, {7}));
  call.Set("bias", Array(DType::kF32, {4}, {1, 2, 3, 4}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {2, 4}, {1, 2, 3, 4, 1, 2, 3, 4}))
        << kernel;
  }
}

TEST(LayerNorm, DoesNotLoseSmallDifferencesOfLargeNumbers) {
  Call call("layer_norm");
  call.Set("x", Array(DType::kF32, {1, 4}, {100001, 99999, 100001, 99999})).Set("eps", 0.0);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {1, 4}, {1, -1, 1, -1})) << kernel;
  }
}

// The squares of such rows are beyond f32, or below it; eps is as small as it may be.
TEST(LayerNorm, NormalizesRowsOfAnyMagnitude) {
  const double allowed = (8 + 2 * std::sqrt(4096.0)) * kU;
  for (const double size : {1e-40, 1e-25, 3e17, 1e19, 3e38}) {
    Array x(DType::kF32, {1, 4096});
    for (std::int64_t i = 0; i < x.size(); ++i) x.Set(i, i % 2 ? -size : size);
    Call call("layer_norm");
    call.Set("x", x).Set("eps", 0.0);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      const Array& y = results.find("y")->second;
      for (std::int64_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(y.Get(i), i % 2 ? -1 : 1, allowed) << kernel << " " << size;
      }
    }
  }
}

TEST(LayerNorm, RefusesANegativeEps) {
  Call call("layer_norm");
  call.Set("x", Array(DType::kF32, {1, 3}, {1})).Set("eps", -1.0);
  EXPECT_EQ(call.Refusal(), "layer_norm: eps >= 0 must hold, but eps is -1.0.");
}

double Gain(const Call& call, std::int64_t j) {
  return call.given("weight") ? std::fabs(call.array("weight").Get(j)) : 1;
}

// Every term of dx made absolute, with z as wrong as it may be.
Allowed OfX(const Call& call) {
  const Array &x = call.array("x"), &dy = call.array("dy");
  const std::int64_t d = x.dim(-1);
  const auto rows = NormalizedRows(call);
  std::vector<double> terms(std::size_t(x.size()));
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const NormalizedRow& row = rows[std::size_t(r)];
    const auto g = [&](std::int64_t j) { return std::fabs(dy.Get(r * d + j)) * Gain(call, j); };
    double sum = 0, product = 0;
    for (std::int64_t j = 0; j < d; ++j) {
      sum += g(j) / double(d);
      product += g(j) * row.error(x.Get(r * d + j)) / double(d);
    }
    for (std::int64_t j = 0; j < d; ++j) {
      terms[std::size_t(r * d + j)] =
          row.scale * (g(j) + sum + row.error(x.Get(r * d + j)) * product);
    }
  }
  const double k = (8 + 4 * std::sqrt(double(d))) * kU;
  return [terms, k](const Element& e) {
    return 0.51 * e.ulp() + k * terms[std::size_t(e.index)] + 0x1p-126;
  };
}

// The same of a sum over rows. of_weight: each dy is multiplied by z.
Tolerance OfRows(bool of_weight) {
  return [of_weight](const Call& call) -> Allowed {
    const Array &x = call.array("x"), &dy = call.array("dy");
    const std::int64_t d = x.dim(-1);
    const auto rows = NormalizedRows(call);
    std::vector<double> terms(std::size_t(d), 0);
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const double z = of_weight ? rows[std::size_t(i / d)].error(x.Get(i)) : 1;
      terms[std::size_t(i % d)] += std::fabs(dy.Get(i)) * z;
    }
    const double k = (8 + 2 * std::sqrt(double(d)) + 2 * std::sqrt(double(x.rows()))) * kU;
    return [terms, k](const Element& e) {
      return 0.51 * e.ulp() + k * terms[std::size_t(e.index)] + 0x1p-126;
    };
  };
}

const OpTest kLayerNormBackward{
    .op = "layer_norm_backward",
    .tolerance = PerResult({{"dx", OfX}, {"dweight", OfRows(true)}, {"dbias", OfRows(false)}}),
    .sizes = {"rows = 16, d = 1280", "rows = 300, d = 65"},
    .ranges = {{"eps", {1e-6, 1e-2}}},
};
TEST(LayerNormBackward, MatchesItsReference) { CheckAll(kLayerNormBackward); }

// A shift or a scaling of a row changes nothing.
TEST(LayerNormBackward, IsZeroAlongAShiftAndAlongTheRow) {
  for (const double back : {5.0, -5.0}) {
    Call call("layer_norm_backward");
    call.Set("dy", Array(DType::kF32, {1, 4}, {5, back, 5, back})).Set("eps", 0.0);
    call.Set("x", Array(DType::kF32, {1, 4}, {3, 1, 3, 1}));
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_EQ(results.find("dx")->second, Array(DType::kF32, {1, 4}, {0})) << kernel;
      EXPECT_EQ(results.find("dbias")->second, Array(DType::kF32, {4}, {5, back, 5, back}))
          << kernel;
    }
  }
}

}  // namespace
}  // namespace anyop::optest::layer_norm_test
