// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/layer_norm/testing.h"

namespace anyop::optest::layer_norm_backward_test {
namespace {

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
}  // namespace anyop::optest::layer_norm_backward_test
