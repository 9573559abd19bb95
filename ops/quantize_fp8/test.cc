// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <limits>
#include <vector>

namespace anyop::optest::quantize_fp8_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

const OpTest kQuantize{
    .op = "quantize_fp8",
    .row_invariant = true,
    .sizes = {"rows = 16, d = 576", "rows = 3, d = 257"},
    .ranges = {{"x", {-600, 600}}, {"scale", {0.5, 2}}},
};
TEST(QuantizeFp8, MatchesItsReference) { CheckAll(kQuantize); }

const OpTest kQuantizeDynamic{
    .op = "quantize_fp8_dynamic",
    .row_invariant = true,
    .sizes = {"rows = 16, d = 512, group = 128", "rows = 3, d = 257, group = 257"},
    .values = {{"group", {1, 2, 5}}, {"min_amax", {0, 1e-10, 0.5}}},
};
TEST(QuantizeFp8Dynamic, MatchesItsReference) { CheckAll(kQuantizeDynamic); }

TEST(QuantizeFp8Dynamic, GivesZerosWithoutAFloorTheScaleOfPlusZero) {
  for (const bool pow2 : {false, true}) {
    Call call("quantize_fp8_dynamic");
    call.Set("x", Array(DType::kF32, {1, 4}, {0, -0.0, 0, 0})).Set("group", 4);
    call.Set("min_amax", 0.0).Set("pow2_scale", pow2);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_EQ(results.at("scale"), Array(DType::kF32, {1, 1}, {0})) << kernel;
    }
  }
}

// q and the scales of one row of x.
void Expect(Call& call, const std::vector<double>& x, const std::vector<double>& q,
            const std::vector<double>& scale) {
  const auto n = std::int64_t(x.size());
  Array row(DType::kF32, {1, n});
  for (std::int64_t i = 0; i < n; ++i) row.Set(i, x[std::size_t(i)]);
  for (const auto& [kernel, results] : call.Set("x", row).RunEveryKernel()) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double actual = results.find("q")->second.Get(i), wanted = q[std::size_t(i)];
      if (std::isnan(wanted)) {
        EXPECT_TRUE(std::isnan(actual)) << kernel << " " << i;
      } else {
        EXPECT_EQ(actual, wanted) << kernel << " " << i;
      }
    }
    for (std::size_t g = 0; g < scale.size(); ++g) {
      EXPECT_EQ(results.find("scale")->second.Get(std::int64_t(g)), scale[g]) << kernel << " " << g;
    }
  }
}

TEST(QuantizeFp8, RoundsHalfToEvenAndSaturates) {
  Call call("quantize_fp8");
  call.Set("scale", Array(DType::kF32, {1}, {2}));
  // Between 16 and 32 the spacing is 2.
  Expect(call, {2, 34, 38, 1000, -1000, kInf, -kInf, kNan}, {1, 16, 20, 448, -448, 448, -448, kNan},
         {});
}

TEST(QuantizeFp8, MultipliesByTheRoundedInverse) {
  // 315 / 15 is a tie that goes to 20; 315 * f32(1 / 15) is above it.
  Call call("quantize_fp8");
  call.Set("scale", Array(DType::kF32, {1}, {15}));
  Expect(call, {315, -315}, {22, -22}, {});
}

Call Dynamic(int group, bool pow2_scale = false) {
  Call call("quantize_fp8_dynamic");
  call.Set("group", group).Set("pow2_scale", pow2_scale);
  return call;
}

TEST(QuantizeFp8Dynamic, ScalesEachGroupByItsLargest) {
  Call call = Dynamic(2);
  Expect(call, {448, -1, 7, -896, 0, 0}, {448, -1, 3.5, -448, 0, 0}, {1, 2, 1e-10f / 448.0f});
  Expect(call.Set("min_amax", 896.0), {448, -1, 7, -896, 0, 0}, {224, -0.5, 3.5, -448, 0, 0},
         {2, 2, 2});
}

TEST(QuantizeFp8Dynamic, RaisesAScaleToAPowerOf2) {
  Call call = Dynamic(1, true);
  Expect(call, {448, 449, 1000, 224, 225}, {448, 224, 256, 448, 224},  // of 224.5, 250, 225
         {1, 2, 4, 0.5, 1});
  // Scales that are subnormal in f32.
  call.Set("min_amax", 0.0);
  Expect(call, {448 * 0x1p-140, 449 * 0x1p-140, -448 * 0x1p-126}, {448, 224, -448},
         {0x1p-140, 0x1p-139, 0x1p-126});
}

TEST(QuantizeFp8Dynamic, IgnoresNaNInTheLargest) {
  Call call = Dynamic(3);
  Expect(call, {kNan, 896, 2}, {kNan, 448, 1}, {2});
  Expect(call, {kNan, kNan, kNan}, {kNan, kNan, kNan}, {1e-10f / 448.0f});
}

TEST(QuantizeFp8Dynamic, GivesNaNAtAnInfinityAndZeroBesideIt) {
  for (const bool pow2_scale : {false, true}) {
    Call call = Dynamic(3, pow2_scale);
    Expect(call, {5, kInf, kNan, -kInf, -3, 448}, {0, kNan, kNan, kNan, -0.0, 0}, {kInf, kInf});
  }
}

TEST(QuantizeFp8Dynamic, RefusesGroupsThatDoNotDivide) {
  Call call = Dynamic(3);
  call.Set("x", Array(DType::kF32, {1, 7}));
  EXPECT_EQ(call.Refusal(),
            "quantize_fp8_dynamic: d % group == 0 must hold, but group is 3, d is 7 "
            "(x is f32[1, 7]).");
  EXPECT_EQ(call.Set("group", 0).Refusal(),
            "quantize_fp8_dynamic: group >= 1 must hold, but group is 0.");
}

}  // namespace
}  // namespace anyop::optest::quantize_fp8_test
