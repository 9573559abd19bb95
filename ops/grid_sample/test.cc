// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace anyop::optest::grid_sample_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

// 0.51 ulp + 8u max|x| + 4u max(w, h) times the largest step between neighbours, at most 2 max|x|.
Allowed Interpolated(const Call& call) {
  const Array& x = call.array("x");
  double most = 0;
  for (std::int64_t i = 0; i < x.size(); ++i) most = std::max(most, std::fabs(x.Get(i)));
  const double error = (8 + 8 * std::max(call.value("h"), call.value("w"))) * kU * most;
  return [error](const Element& e) { return 0.51 * e.ulp() + error; };
}

// Half of the coordinates: on a pixel, between two, or up to two and a half outside of the image.
void PlaceAtEdges(Call& call) {
  Array& grid = call.array("grid");
  const bool aligned = call.integer("align_corners");
  for (std::int64_t i = 0; i < grid.size(); ++i) {
    const std::int64_t size = call.size(i % 2 ? "h" : "w");
    if (call.Draw(0, 1)) continue;
    const double from_edge = double(call.Draw(-5, 2)) / 2;
    const double pixel = call.Draw(0, 1) ? from_edge : double(size - 1) - from_edge;
    const double span = aligned ? double(std::max<std::int64_t>(size - 1, 1)) : double(size);
    grid.Set(i, (aligned ? 2 * pixel : 2 * pixel + 1) / span - 1);
  }
}

const OpTest kGridSample{
    .op = "grid_sample",
    .tolerance = Tolerance(Interpolated),
    .row_invariant = true,
    .row_variable = "n",
    .sizes = {"n = 2, h = 7, w = 5, c = 70, ho = 3, wo = 40",
              "n = 1, h = 64, w = 33, c = 3, ho = 2, wo = 37"},
    .not_extreme = {{"x", "a neighbour of weight 0 that is infinite gives NaN"}},
    .prepare = PlaceAtEdges,
};
TEST(GridSample, MatchesItsReference) { CheckAll(kGridSample); }

// An image of 2 rows and 3 columns, 10 * row + column, at points (x, y); in both layouts.
void Expect(const char* mode, bool align_corners, std::initializer_list<double> points,
            const std::vector<double>& expected) {
  const auto n = std::int64_t(points.size() / 2);
  for (const char* layout : {"NHWC", "NCHW"}) {
    Call call("grid_sample");
    const bool last = std::string_view(layout) == "NHWC";
    call.Set("x", Array(DType::kF32,
                        last ? std::vector<std::int64_t>{1, 2, 3, 1}
                             : std::vector<std::int64_t>{1, 1, 2, 3},
                        {0, 1, 2, 10, 11, 12}));
    call.Set("grid", Array(DType::kF32, {1, 1, n, 2}, points)).Set("layout", layout);
    call.Set("padding_mode", mode).Set("align_corners", align_corners);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      const Array& y = results.find("y")->second;
      for (std::int64_t i = 0; i < n; ++i) {
        EXPECT_NEAR(y.Get(i), expected[std::size_t(i)], 2e-6)
            << kernel << " " << layout << " " << i;
      }
    }
  }
}

TEST(GridSample, SpansTheEdgesOrTheCentresOfTheOuterPixels) {
  Expect("border", true, {-1, -1, 1, 1, 0, 0, 0.5, -0.5}, {0, 12, 6, 4});
  // Columns at (u + 1) * 1.5 - 0.5, rows at v + 0.5.
  Expect("border", false, {0, 0, -2.0 / 3, -0.5, 1.0 / 3, 0.5, 1, 1}, {6, 0, 11.5, 12});
}

TEST(GridSample, CountsPixelsOutsideAsZeros) {
  // Half a pixel outside on one side, on two, and a whole one.
  Expect("zeros", false, {1, 0.5, 1, 1, 5.0 / 3, 0.5, 0, 0}, {6, 3, 0, 6});
  Expect("zeros", true, {2, 1, 1, 2, 1, 1}, {0, 6, 12});
}

TEST(GridSample, ReadsNoPixelForAPointThatIsMoreThanOneOutside) {
  // Not even with weight 0, as an infinite one would show.
  Call call("grid_sample");
  call.Set("x", Array(DType::kF32, {1, 2, 2, 1}, {kInf, kInf, kInf, kInf}));
  call.Set("padding_mode", "zeros").Set("align_corners", true);
  // In pixels: 0.25 and 1 further than one outside, on each side.
  const double low = 2 * -1.25 - 1, lower = 2 * -2.0 - 1, high = 2 * 2.25 - 1, higher = 2 * 3.0 - 1;
  call.Set("grid",
           Array(DType::kF32, {1, 1, 8, 2},
                 {low, 0, lower, 0, high, 0, higher, 0, 0, low, 0, lower, 0, high, 0, higher}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {1, 1, 8, 1}, {0, 0, 0, 0, 0, 0, 0, 0}))
        << kernel;
  }
}

TEST(GridSample, TakesNaNForZeroOrGivesZero) {
  Expect("border", true, {kNan, 1, 1, kNan, kNan, kNan}, {10, 2, 0});
  Expect("zeros", true, {kNan, 1, 1, kNan, kNan, kNan}, {0, 0, 0});
}

TEST(GridSample, ClampsInfinitiesAndHugeCoordinates) {
  for (const bool align_corners : {false, true}) {
    Expect("border", align_corners, {kInf, -kInf, -kInf, kInf, 3e38, 3e38, -3e38, -1e30},
           {2, 10, 12, 0});
    Expect("zeros", align_corners, {kInf, 0, 0, -kInf, 3e38, 0, 0, -3e38}, {0, 0, 0, 0});
  }
}

TEST(GridSample, DoesNotReadOutsideTheImage) {
  // A corner outside has no value that its weight of 0 could multiply.
  Call call("grid_sample");
  call.Set("x", Array(DType::kF32, {1, 1, 1, 1}, {5})).Set("padding_mode", "border");
  call.Set("grid", Array(DType::kF32, {1, 1, 2, 2}, {0, 0, 7, 7}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {1, 1, 2, 1}, {5})) << kernel;
  }
}

TEST(GridSample, RefusesAnImageWithoutPixels) {
  Call call("grid_sample");
  call.Set("x", Array(DType::kF32, {1, 0, 2, 3})).Set("grid", Array(DType::kF32, {1, 1, 1, 2}));
  EXPECT_EQ(call.Refusal(), "grid_sample: h >= 1 must hold, but h is 0 (x is f32[1, 0, 2, 3]).");
}

}  // namespace
}  // namespace anyop::optest::grid_sample_test
