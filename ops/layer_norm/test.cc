// SPDX-License-Identifier: Apache-2.0
#include "ops/layer_norm/testing.h"

#include <cmath>

namespace anyop::optest::layer_norm_test {
namespace {

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

}  // namespace
}  // namespace anyop::optest::layer_norm_test
