// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "optest/optest.h"

namespace anyop::optest::rotary_cache_test {
namespace {

constexpr double kPi = 3.14159265358979323846;

// What each kind needs beyond the signature, and a float dtype.
void MakeKind(Call& call) {
  static constexpr const char* kKinds[] = {
      "default",       "linear",         "ntk",    "dynamic_alpha", "yarn",
      "deepseek_yarn", "dynamic_factor", "llama3", "longrope",      "proportional"};
  call.Set("kind", kKinds[call.Draw(0, 9)]);
  const std::int64_t half = call.integer("rot_dim") / 2;
  if (half < 2 && call.word("kind").substr(0, 7) == "dynamic") call.Set("kind", "default");
  call.Set("original_max_position", Argument(call.Draw(64, 8192)));
  call.Set("max_position", Argument(call.Draw(64, 100000)));
  std::vector<double> rescale;
  for (std::int64_t j = 0; j < half; ++j) rescale.push_back(1 + double(call.Draw(0, 100)) / 8);
  call.Set("rescale", rescale);
  static constexpr DType kTo[] = {DType::kF32, DType::kBF16, DType::kF16};
  call.Set("to", kTo[call.Draw(0, 2)]);
}

const OpTest kRotaryCache{
    .op = "rotary_cache",
    // 0.5 ulp of the sine, 0.5 of the product with M, and one rounding to a narrower dtype.
    .tolerance = [](const Element& e) { return 0.51 * e.ulp() + 2 * kU * std::abs(e.exact); },
    .sizes = {"length = 40, rot_dim = 64", "length = 3, rot_dim = 2", "length = 0, rot_dim = 8",
              "length = 5, rot_dim = 128", "length = 7, rot_dim = 10"},
    .ranges = {{"base", {10, 500000}},
               {"factor", {0.5, 40}},
               {"alpha", {1, 1000}},
               {"mixed_b", {0.3, 1}},
               {"beta_fast", {16, 64}},
               {"beta_slow", {0.5, 4}},
               {"extrapolation", {0, 1}},
               {"attn_factor", {0.5, 2}},
               {"mscale", {0, 1.5}},
               {"mscale_all_dim", {0, 1.5}},
               {"low_freq_factor", {0.5, 2}},
               {"high_freq_factor", {2, 6}}},
    .prepare = MakeKind,
};
TEST(RotaryCache, MatchesItsReference) { CheckAll(kRotaryCache); }

// A table of rows 0 and 1 for `kind`: its angles are the frequencies, its length the magnitude.
struct Row {
  std::vector<double> f;
  double magnitude;
};
Row RowOf(Call& call) {
  const Array cache = call.Run()["cache"];
  const std::int64_t q = cache.dim(1) / 2;
  Row row{{}, cache.Get({0, 0})};
  for (std::int64_t j = 0; j < q; ++j) {
    const double c = cache.Get({1, j}), s = cache.Get({1, q + j});
    row.f.push_back(std::atan2(s, c));
    EXPECT_NEAR(std::hypot(c, s), row.magnitude, 1e-6);
    EXPECT_EQ(cache.Get({0, j}), row.magnitude);
    EXPECT_EQ(cache.Get({0, q + j}), 0);
  }
  return row;
}
Call Kind(const char* kind, int rot_dim = 8) {
  Call call("rotary_cache");
  call.Set("kind", kind).Set("length", 2).Set("rot_dim", rot_dim);
  return call;
}
// base 10000, rot_dim 8: frequencies 1, 0.1, 0.01, 0.001.
void ExpectFrequencies(const Row& row, const std::vector<double>& expected, double magnitude = 1) {
  ASSERT_EQ(row.f.size(), expected.size());
  for (std::size_t j = 0; j < expected.size(); ++j) {
    EXPECT_NEAR(row.f[j], expected[j], 2e-6 * expected[j]) << j;
  }
  EXPECT_NEAR(row.magnitude, magnitude, 1e-6 * magnitude);
}

TEST(RotaryCache, FallsGeometricallyByDefault) {
  Call call = Kind("default");
  ExpectFrequencies(RowOf(call), {1, 0.1, 0.01, 0.001});
}

TEST(RotaryCache, DividesByTheFactorWhenLinear) {
  Call call = Kind("linear");
  call.Set("factor", 4);
  ExpectFrequencies(RowOf(call), {0.25, 0.025, 0.0025, 0.00025});
}

TEST(RotaryCache, StretchesTheBaseForNtk) {
  Call call = Kind("ntk");
  call.Set("factor", 16);  // base 160000 = 20^4: 1, 1/20, 1/400, 1/8000, times 16^(-1/4) = 1/2
  ExpectFrequencies(RowOf(call), {0.5, 0.025, 0.00125, 0.0000625});
  call.Set("mixed_b", 1.0);  // a = ln(16)/4: divided by 2^(j+1)
  ExpectFrequencies(RowOf(call), {0.5, 0.025, 0.00125, 0.0000625});
  call.Set("mixed_b", 0.5);  // a = ln(16)/2: divided by 4^sqrt(j+1)
  ExpectFrequencies(RowOf(call), {0.25, 0.1 / std::pow(4, std::sqrt(2)),
                                  0.01 / std::pow(4, std::sqrt(3)), 0.001 / 16});
}

TEST(RotaryCache, StretchesTheBaseForTheDynamicKinds) {
  Call alpha = Kind("dynamic_alpha");
  alpha.Set("alpha", 8);  // 8^(8/6) = 16: base 20^4
  ExpectFrequencies(RowOf(alpha), {1, 1.0 / 20, 1.0 / 400, 1.0 / 8000});
  Call factor = Kind("dynamic_factor");
  factor.Set("factor", 2).Set("max_position", 9).Set("original_max_position", 2);  // 2*4.5 - 1 = 8
  ExpectFrequencies(RowOf(factor), {1, 1.0 / 20, 1.0 / 400, 1.0 / 8000});
}

TEST(RotaryCache, RampsBetweenTheBetasForYarn) {
  // C(b) = 4 * log10(L/(2 pi b)) / 4: with L = 2 pi * 10000, fast 1000: 1, slow 10: 3.
  Call call = Kind("yarn");
  call.Set("factor", 4).Set("original_max_position", 62832).Set("truncate", false);
  call.Set("beta_fast", 62832 / (2 * kPi * 10)).Set("beta_slow", 62832 / (2 * kPi * 1000));
  const double m = 0.1 * std::log(4.0) + 1;
  // ramp 0, 0, 0.5, 1: w = 1, 1, 0.5, 0
  ExpectFrequencies(RowOf(call), {1, 0.1, 0.01 * (0.5 / 4 + 0.5), 0.001 / 4}, m);
  call.Set("extrapolation", 0.5).Set("attn_factor", 3.0);
  ExpectFrequencies(RowOf(call), {0.625, 0.0625, 0.01 * (0.75 / 4 + 0.25), 0.001 / 4}, 3 * m);
  call.Set("apply_yarn_scaling", false);
  EXPECT_NEAR(RowOf(call).magnitude, 3, 1e-6);
  call.Set("factor", 0.5).Set("apply_yarn_scaling", true);
  EXPECT_NEAR(RowOf(call).magnitude, 3, 1e-6);
}

TEST(RotaryCache, RoundsTheRampOutwardsForTruncatedYarn) {
  // fast at 0.5, slow at 2.5: from 0 to 3.
  Call call = Kind("yarn");
  call.Set("factor", 4).Set("original_max_position", 62832);
  call.Set("beta_fast", 62832 / (2 * kPi * std::pow(10, 0.5)));
  call.Set("beta_slow", 62832 / (2 * kPi * std::pow(10, 2.5)));
  const auto mix = [](double w) { return (1 - w) / 4 + w; };
  ExpectFrequencies(RowOf(call), {1, 0.1 * mix(2.0 / 3), 0.01 * mix(1.0 / 3), 0.001 / 4},
                    0.1 * std::log(4.0) + 1);
  call.Set("kind", "deepseek_yarn").Set("truncate", false).Set("mscale", 0.5);
  call.Set("mscale_all_dim", 2.0).Set("attn_factor", 2.0);
  ExpectFrequencies(RowOf(call), {1, 0.1 * mix(2.0 / 3), 0.01 * mix(1.0 / 3), 0.001 / 4},
                    2 * (0.05 * std::log(4.0) + 1) / (0.2 * std::log(4.0) + 1));
}

TEST(RotaryCache, KeepsTheRampOfYarnWithinTheTable) {
  const auto beta = [](double pair) { return 62832 / (2 * kPi * std::pow(10, pair)); };
  const auto mix = [](double w) { return (1 - w) / 4 + w; };
  const double m = 0.1 * std::log(4.0) + 1;
  Call call = Kind("yarn");
  call.Set("factor", 4).Set("original_max_position", 62832).Set("truncate", false);
  call.Set("beta_fast", beta(-2)).Set("beta_slow", beta(2));  // from 0, not -2
  ExpectFrequencies(RowOf(call), {1, 0.1 * mix(0.5), 0.01 / 4, 0.001 / 4}, m);
  call.Set("beta_fast", beta(1)).Set("beta_slow", beta(20));  // to 7, not 20
  ExpectFrequencies(RowOf(call), {1, 0.1, 0.01 * mix(5.0 / 6), 0.001 * mix(4.0 / 6)}, m);
  call.Set("beta_fast", beta(-2)).Set("beta_slow", 62832 / (2 * kPi));  // both 0: a step
  ExpectFrequencies(RowOf(call), {1, 0.1 / 4, 0.01 / 4, 0.001 / 4}, m);
}

TEST(RotaryCache, BlendsLongWavesForLlama3) {
  // turns = L f / (2 pi) = 1000, 100, 10, 1 with L = 2 pi * 1000.
  Call call = Kind("llama3");
  call.Set("original_max_position", 6283).Set("factor", 8);
  call.Set("low_freq_factor", 4.0).Set("high_freq_factor", 16.0);
  const double turns = 6283 * 0.01 / (2 * kPi), z = (turns - 4) / 12;
  ExpectFrequencies(RowOf(call), {1, 0.1, 0.01 * ((1 - z) / 8 + z), 0.001 / 8});
}

TEST(RotaryCache, DividesByTheListForLongrope) {
  Call call = Kind("longrope");
  call.Set("rescale", std::vector<double>{1, 2, 4, 8}).Set("original_max_position", 16);
  call.Set("max_position", 16).Set("attn_factor", 1.5);
  ExpectFrequencies(RowOf(call), {1, 0.05, 0.0025, 0.000125}, 1.5);
  call.Set("max_position", 256);  // sqrt(1 + ln 16 / ln 16)
  ExpectFrequencies(RowOf(call), {1, 0.05, 0.0025, 0.000125}, 1.5 * std::sqrt(2.0));
}

TEST(RotaryCache, LeavesPairsUnrotatedForProportional) {
  Call call = Kind("proportional");
  call.Set("factor", 2).Set("rotated", 4);
  ExpectFrequencies(RowOf(call), {0.5, 0.05, 0, 0});
  call.Set("rotated", 0);
  ExpectFrequencies(RowOf(call), {0.5, 0.05, 0.005, 0.0005});
}

TEST(RotaryCache, RefusesAnOddNumberOfRotatedElements) {
  EXPECT_EQ(Kind("proportional").Set("rotated", 3).Refusal(),
            "rotary_cache: rotated % 2 == 0 must hold, but rotated is 3.");
}

TEST(RotaryCache, RefusesATableThatWouldNotBeFinite) {
  Call zero = Kind("longrope").Set("rescale", std::vector<double>{1, 0, 1, 1});
  zero.Set("max_position", 16).Set("original_max_position", 16);
  EXPECT_EQ(zero.Refusal(),
            "rotary_cache: the frequency of pair 1 is inf with kind 'longrope', but it and its "
            "multiples up to the last position must be finite, because the table holds their "
            "cosines.");
  zero.Set("rescale", std::vector<double>{1, 1, 1, 1}).Set("original_max_position", 1);
  EXPECT_EQ(zero.Refusal(),
            "rotary_cache: the magnitude of the table is inf with kind 'longrope', but must be a "
            "finite f32, because every element is a multiple of it.");
  Call yarn = Kind("yarn").Set("original_max_position", 64).Set("attn_factor", 1e5);
  yarn.Set("to", DType::kF16);
  EXPECT_EQ(yarn.Refusal(),
            "rotary_cache: the magnitude of the table is 100000.000000 with kind 'yarn', but must "
            "be a finite f16, because every element is a multiple of it.");
  yarn.Set("to", DType::kF32).Run();
}

TEST(RotaryCache, ReducesLargeAnglesExactly) {
  Call call = Kind("default", 2);
  call.Set("length", 100001);
  const Array cache = call.Run()["cache"];
  EXPECT_NEAR(cache.Get({100000, 0}), std::cos(100000.0), 6e-8);
  EXPECT_NEAR(cache.Get({100000, 1}), std::sin(100000.0), 6e-8);
}

TEST(RotaryCache, RoundsTheAngleToF32) {
  Call call = Kind("default");
  call.Set("length", 50000);
  const Array cache = call.Run()["cache"];
  const float angle = 49999.0f * float(std::pow(10000.0, -0.25));
  EXPECT_EQ(cache.Get({49999, 1}), double(float(std::cos(double(angle)))));
}

TEST(RotaryCache, RefusesAKindWithoutItsParameters) {
  Call yarn = Kind("yarn");
  EXPECT_EQ(yarn.Refusal(),
            "rotary_cache: original_max_position is 0, but must be at least 1 because kind is "
            "'yarn'.");
  Call factor = Kind("dynamic_factor");
  factor.Set("original_max_position", 1);
  EXPECT_EQ(factor.Refusal(),
            "rotary_cache: max_position is 0, but must be at least 1 because kind is "
            "'dynamic_factor'.");
  EXPECT_EQ(Kind("dynamic_alpha", 2).Refusal(),
            "rotary_cache: rot_dim is 2, but must be at least 4 because kind is 'dynamic_alpha'.");
  EXPECT_EQ(Kind("longrope").Refusal(),
            "rotary_cache: kind != 'longrope' or (given(rescale) and len(rescale) == rot_dim/2) "
            "must hold, but rot_dim is 8, kind is 'longrope', rescale is None.");
  for (const DType to : {DType::kF64, DType::kF8E4M3, DType::kI32}) {
    EXPECT_EQ(Kind("default").Set("to", to).Refusal(),
              "rotary_cache: to is " + std::string(Name(to)) + ", but must be f32, f16 or bf16.");
  }
}

}  // namespace
}  // namespace anyop::optest::rotary_cache_test
