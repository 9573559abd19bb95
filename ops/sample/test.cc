// SPDX-License-Identifier: Apache-2.0
#include "ops/sample/sample.h"
#include "optest/gtest/sizes.h"
#include "optest/optest.h"

#include <cmath>
#include <limits>

namespace anyop::optest::sample_test {
namespace {

// Settings around the edges of every step; noise that lies in the range of its rank, or outside.
void MakeSettings(Call& call) {
  const auto fill = [&](const char* name, std::initializer_list<double> values) {
    if (!call.given(name)) return;
    Array& array = call.array(name);
    for (std::int64_t i = 0; i < array.size(); ++i) {
      array.Set(i, values.begin()[call.Draw(0, std::int64_t(values.size()) - 1)]);
    }
  };
  const double v = double(call.size("v"));
  fill("temperature", {0, 0.5, 1, 0.83, 3});
  fill("top_k", {-1, 0, 1, 2, 5, v - 1, v, v + 7});
  fill("top_p", {-0.5, 0, 0.05, 0.3, 0.77, 0.95, 1, 2});
  fill("min_p", {-1, 0, 0.01, 0.1, 0.6});
  Array& random = call.array("random");
  for (std::int64_t i = 0; i < random.size(); ++i) {
    const double u = double(call.Draw(1, 1 << 24)) / (1 << 24);
    const bool is_uniform = random.shape().size() == 1;
    random.Set(i, call.Draw(0, 19) == 0 ? -1 + 3 * double(call.Draw(0, 1))
                  : is_uniform          ? u
                                        : -std::log(u) + 0x1p-20);
  }
}

const OpTest kSample{
    .op = "sample",
    .tolerance = Exact(),
    .row_invariant = true,
    .row_variable = "b",
    .sizes = {"b = 16, v = 300", "b = 3, v = 2000", "b = 2, v = 20000"},
    .ranges = {{"logits", {-6, 6}}},
    .prepare = MakeSettings,
};
TEST(Sample, MatchesItsReference) { CheckAll(kSample); }

class OneRow {
 public:
  explicit OneRow(std::initializer_list<double> logits) : n_(std::int64_t(logits.size())) {
    call_.Set("logits", Array(DType::kF32, {1, n_}, logits));
  }
  OneRow& Set(const char* name, double value) {
    const DType dtype = std::string_view(name) == "top_k" ? DType::kI32 : DType::kF32;
    call_.Set(name, Array(dtype, {1}, {value}));
    return *this;
  }
  // The id drawn at `u`, by every kernel.
  std::int64_t At(double u) { return Draw(Array(DType::kF32, {1}, {u})); }
  std::int64_t With(std::initializer_list<double> noise) {
    return Draw(Array(DType::kF32, {1, n_}, noise));
  }

 private:
  std::int64_t Draw(const Array& random) {
    call_.Set("random", random);
    std::int64_t id = -1;
    for (const auto& [kernel, results] : call_.RunEveryKernel()) {
      const std::int64_t drawn = results.find("ids")->second.GetInt(0);
      EXPECT_TRUE(id < 0 || drawn == id) << kernel << " draws " << drawn << ", not " << id;
      id = drawn;
    }
    return id;
  }

  std::int64_t n_;
  Call call_{"sample"};
};
// Logits of the given probabilities: log(4), log(1), log(3), log(2).
const std::initializer_list<double> kTenths = {1.3862944, 0, 1.0986123, 0.6931472};

TEST(Sample, WalksTheProbabilitiesByRisingIndex) {
  OneRow row(kTenths);  // 0.4, 0.1, 0.3, 0.2
  EXPECT_EQ(row.At(0), 0);
  EXPECT_EQ(row.At(0.399), 0);
  EXPECT_EQ(row.At(0.401), 1);
  EXPECT_EQ(row.At(0.499), 1);
  EXPECT_EQ(row.At(0.501), 2);
  EXPECT_EQ(row.At(0.799), 2);
  EXPECT_EQ(row.At(0.801), 3);
  EXPECT_EQ(row.At(0.999), 3);
}

TEST(Sample, WantsTheRunningSumToExceed) { EXPECT_EQ(OneRow({0, 0, 0, 0}).At(0.5), 2); }

TEST(Sample, ClampsTheRandomNumber) {
  OneRow row(kTenths);
  EXPECT_EQ(row.At(-3), 0);
  EXPECT_EQ(row.At(NAN), 0);
  EXPECT_EQ(row.At(1), 3);
  EXPECT_EQ(row.At(7), 3);
  EXPECT_EQ(OneRow({0, -20}).At(1), 0);  // below 1 by more than the second weighs
}

TEST(Sample, TakesTheArgmaxAtTemperatureZero) {
  OneRow row({1, 3, 2, 3});
  row.Set("temperature", 0).Set("top_k", 1).Set("top_p", 0.1);
  EXPECT_EQ(row.At(0.99), 1);
  EXPECT_EQ(row.With({1, 9, 1e-6, 1e-6}), 1);
}

// Where m / temperature is not finite for the largest logit m.
TEST(Sample, TakesTheArgmaxAtATemperatureThatOverflows) {
  const double infinity = std::numeric_limits<double>::infinity();
  OneRow row({1, 2, 3, 2.5, -infinity});
  row.Set("temperature", 1e-39);
  EXPECT_EQ(row.At(0.1), 2);
  EXPECT_EQ(row.At(0.99), 2);
  EXPECT_EQ(row.With({1, 9, 9, 1e-6, 1e-6}), 2);
  OneRow negative({-4, -2, -3, NAN});
  negative.Set("temperature", 1e-39);
  EXPECT_EQ(negative.At(0.99), 1) << "all quotients are -inf";
  OneRow both({3e38, 1e38, infinity, 2, infinity});
  EXPECT_EQ(both.Set("temperature", 0.1).At(0.9), 4) << "+inf itself does not overflow";
  EXPECT_EQ(OneRow({0, -1}).Set("temperature", 1e-39).At(0.99), 0) << "0 / temperature is finite";
}

TEST(Sample, RefusesANegativeTemperatureInCheckMode) {
  Call call("sample");
  call.Set("logits", Array(DType::kF32, {3, 2}, {1, 2, 2, 1, 1, 2}));
  call.Set("random", Array(DType::kF32, {3}, {0, 0, 0}));
  EXPECT_NO_THROW(call.Set("temperature", Array(DType::kF32, {3}, {0, -0.0, -0.5})).Run());
  const Checking checking;
  EXPECT_EQ(call.Refusal(),
            "sample: temperature[2] is -0.5, but must be at least 0, because a logit divided by it "
            "would rank the other way round.");
  call.Set("temperature", Array(DType::kF32, {3}, {0, -0.0, 1e-39}));
  EXPECT_EQ(call.Run()["ids"], Array(DType::kI64, {3}, {1, 0, 1}));
  EXPECT_EQ(call.Remove("temperature").Run()["ids"], Array(DType::kI64, {3}, {0, 0, 0}));
}

TEST(Sample, DividesByTheTemperature) {
  OneRow row(kTenths);  // squared: 16, 1, 9, 4 of 30
  row.Set("temperature", 0.5);
  EXPECT_EQ(row.At(15.9 / 30), 0);
  EXPECT_EQ(row.At(16.1 / 30), 1);
  EXPECT_EQ(row.At(17.1 / 30), 2);
}

TEST(Sample, KeepsAllEqualsOfTheKthLargest) {
  OneRow row({1, 2, 2, 0, 2, 1});
  row.Set("top_k", 2);
  EXPECT_EQ(row.At(0.3), 1);
  EXPECT_EQ(row.At(0.6), 2);
  EXPECT_EQ(row.At(0.9), 4);
  row.Set("top_k", 4);  // the two of logit 1 are both fourth
  EXPECT_EQ(row.At(0), 0);
  EXPECT_EQ(row.At(0.999), 5);
}

TEST(Sample, ComparesQuotientsNotLogits) {
  OneRow row({0x1.e9aa5ap0, 0x1.e9aa5cp0});  // a third of both is the same f32
  row.Set("temperature", 3).Set("top_k", 1);
  EXPECT_EQ(row.At(0), 0);
  EXPECT_EQ(row.At(0.999), 1);
}

TEST(Sample, SwitchesStepsOffOutsideTheirRange) {
  for (double off : {0.0, -1.0, 4.0, 100.0}) {
    EXPECT_EQ(OneRow(kTenths).Set("top_k", off).At(0.45), 1) << off;
  }
  for (double off : {1.0, 1.5}) EXPECT_EQ(OneRow(kTenths).Set("top_p", off).At(0.45), 1) << off;
  for (double off : {0.0, -1.0}) EXPECT_EQ(OneRow(kTenths).Set("min_p", off).At(0.45), 1) << off;
}

TEST(Sample, KeepsTopPUntilTheSumBeforeReachesIt) {
  OneRow row(kTenths);  // falling: 0 (0.4), 2 (0.3), 3 (0.2), 1 (0.1)
  row.Set("top_p", 0.39);
  EXPECT_EQ(row.At(0.999), 0);
  row.Set("top_p", 0.41);  // 0 and 2, of 0.7
  EXPECT_EQ(row.At(0.56), 0);
  EXPECT_EQ(row.At(0.58), 2);
  EXPECT_EQ(row.At(0.999), 2);
  row.Set("top_p", 0.71);  // 0, 2 and 3, of 0.9
  EXPECT_EQ(row.At(0.999), 3);
  row.Set("top_p", 0.91);
  EXPECT_EQ(row.At(0.45), 1);
}

TEST(Sample, KeepsOnlyTheFirstForTopPOfZero) {
  for (double p : {0.0, -1.0}) {
    OneRow row({1, 3, 2, 3});
    row.Set("top_p", p);
    EXPECT_EQ(row.At(0.999), 1);
    EXPECT_EQ(row.With({1, 9, 1e-6, 1e-6}), 1);
  }
}

TEST(Sample, KeepsEqualsOfTopPByRisingIndex) {
  OneRow row({0, 0, 0, 0});
  row.Set("top_p", 0.6);  // before them 0, 0.25, 0.5, 0.75: three stay
  EXPECT_EQ(row.At(0.999), 2);
  EXPECT_EQ(row.At(0.32), 0);
  EXPECT_EQ(row.At(0.35), 1);
}

TEST(Sample, StopsTopPWhereTheSumBeforeEqualsIt) {
  OneRow row({0, 0, 0, 0});
  row.Set("top_p", 0.5);  // before the third exactly half
  EXPECT_EQ(row.At(0.999), 1);
}

TEST(Sample, CountsTheLargerBeforeEqualsOfTopP) {
  OneRow row({0, 0, 0.6931472, 0, 0});  // weights 0.5, 0.5, 1, 0.5, 0.5
  row.Set("top_p", 0.6);                // of 3: before them 1, 1.5, 0, 2, 2.5
  EXPECT_EQ(row.At(0.999), 2);
  EXPECT_EQ(row.At(0.3), 1);
}

TEST(Sample, MeasuresTopPAfterTopK) {
  OneRow row(kTenths);
  row.Set("top_k", 2).Set("top_p", 0.5);  // of 0.4 and 0.3: 0.4 is above half
  EXPECT_EQ(row.At(0.999), 0);
  row.Set("top_p", 0.6);
  EXPECT_EQ(row.At(0.999), 2);
}

TEST(Sample, MeasuresMinPAgainstTheLargest) {
  OneRow row(kTenths);
  row.Set("min_p", 0.49);  // 0.4 * 0.49 is below 0.2
  EXPECT_EQ(row.At(0.999), 3);
  row.Set("min_p", 0.51);
  EXPECT_EQ(row.At(0.999), 2);
  row.Set("min_p", 1);
  EXPECT_EQ(row.At(0.999), 0);
}

TEST(Sample, WeighsTheExactDifferenceOfLogits) {
  // l - m rounded to f32 is off by up to 8 ulp of the weight at -20: min_p falls between the two.
  const float m = 3.3f;
  for (int i = 0; i < 50; ++i) {
    const float l = -17.0f + 0.0123f * float(i);
    const double exact = std::exp(double(l) - double(m)), rounded = std::exp(double(l - m));
    if (std::abs(exact - rounded) < 4e-7 * exact) continue;
    OneRow row({l, m});
    row.Set("min_p", (exact + rounded) / 2);
    EXPECT_EQ(row.At(0), exact > rounded ? 0 : 1) << l;
  }
}

TEST(Sample, KeepsTheLargestWhateverMinP) {
  EXPECT_EQ(OneRow(kTenths).Set("min_p", 7).At(0.999), 0);
}

TEST(Sample, TakesTheLargestRatioToExponentialNoise) {
  OneRow row(kTenths);  // ratios: weights 4, 1, 3, 2
  EXPECT_EQ(row.With({1, 1, 1, 1}), 0);
  EXPECT_EQ(row.With({4, 0.1, 1, 1}), 1);
  EXPECT_EQ(row.With({4, 1, 1, 0.5}), 3);
  EXPECT_EQ(OneRow({2, 2, 2}).With({3, 1, 1}), 1);
  EXPECT_EQ(row.With({1, 0, 1, 1}), 1);  // clamped to the least positive number
  EXPECT_EQ(row.Set("top_k", 2).With({4, 1e-9, 1, 1e-9}), 2);
}

TEST(Sample, NeverDrawsMinusInfinityOrNaN) {
  const double infinity = std::numeric_limits<double>::infinity();
  OneRow row({-infinity, 1, NAN, 1, -infinity});
  EXPECT_EQ(row.At(0), 1);
  EXPECT_EQ(row.At(0.51), 3);
  EXPECT_EQ(row.At(0.99999), 3);
  EXPECT_EQ(row.With({1e-30, 2, 1e-30, 1, 1e-30}), 3);
  EXPECT_EQ(row.With({1, infinity, 1, infinity, 1}), 1);
}

TEST(Sample, DrawsAlikeAmongPlusInfinity) {
  const double infinity = std::numeric_limits<double>::infinity();
  OneRow row({5, infinity, NAN, infinity, -infinity});
  EXPECT_EQ(row.At(0), 1);
  EXPECT_EQ(row.At(0.49), 1);
  EXPECT_EQ(row.At(0.51), 3);
  EXPECT_EQ(row.Set("top_p", 0.4).At(0.999), 1);
}

TEST(Sample, GivesZeroForARowWithoutAnyLogit) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(OneRow({-infinity, NAN, -infinity}).At(0.9), 0);
  EXPECT_EQ(OneRow({-infinity, NAN}).With({3, 1}), 0);
  EXPECT_EQ(OneRow({NAN, -infinity}).Set("temperature", 0).At(0.9), 0);
}

TEST(Sample, ComparesLogitsNotTheirRoundedWeights) {
  // Both weigh 1 in f32, but only the second is the largest.
  OneRow row({1e-9, 2e-9});
  row.Set("top_k", 1);
  EXPECT_EQ(row.At(0), 1);
}

TEST(Sample, HasAWorkspaceOfOneSizeInNamesAndInNumbers) {
  ExpectTheSameBytes<ops::SizeText>([](const auto& s) {
    using ops::Min;  // of numbers
    using N = std::decay_t<decltype(s[0])>;
    return ops::CandidatesWorkspace<N>(Min(s[0], s[1]), s[2]);
  });
}

}  // namespace
}  // namespace anyop::optest::sample_test
