// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace anyop::optest::topk_router_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

// Logits a 32nd apart, or equal, and a bias of 0 or 1: no two c that differ are nearly equal.
void Separate(Call& call) {
  Array& logits = call.array("logits");
  const std::int64_t e = logits.dim(1);
  std::vector<std::int64_t> order(std::size_t(e), 0);
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = 0; i < logits.dim(0); ++i) {
    std::shuffle(order.begin(), order.end(), call.random());
    for (std::int64_t j = 0; j < e; ++j) {
      logits.Set({i, j}, double(order[std::size_t(j)] % 160) / 32 - 1);
    }
  }
  if (call.given("bias")) {
    for (std::int64_t j = 0; j < e; ++j) call.array("bias").Set(j, double(call.Draw(0, 1)));
  }
}

const OpTest kTopkRouter{
    .op = "topk_router",
    .tolerance = PerResult({{"weights", Relative(12, 1, "e")}}),
    .row_invariant = true,
    .row_variable = "t",
    .sizes = {"t = 5, e = 128, top = 8", "t = 3, e = 257, top = 20", "t = 2, e = 9, top = 9",
              "t = 6, e = 256, top = 8, num_groups = 8, top_groups = 4, group_best = 2",
              "t = 6, e = 60, top = 6, num_groups = 4, top_groups = 2, group_best = 5",
              "t = 6, e = 40, top = 3, num_groups = 5, top_groups = 1, group_best = 1"},
    .ranges = {{"scaling", {0.5, 3}}},
    .values = {{"top", {1, 2, 3}},
               {"num_groups", {1, 1, 2, 3}},
               {"top_groups", {1, 2}},
               {"group_best", {0, 1}}},
    .prepare = Separate,
};
TEST(TopkRouter, MatchesItsReference) { CheckAll(kTopkRouter); }

// The terms of the formula made absolute.
Allowed GradientTerms(const Call& call) {
  const Array &logits = call.array("logits"), &ids = call.array("ids");
  const std::int64_t e = logits.dim(1), top = ids.dim(1);
  const bool is_softmax = call.word("scoring") == "softmax";
  std::vector<double> terms;
  for (std::int64_t i = 0; i < logits.dim(0); ++i) {
    std::vector<double> p, dp(std::size_t(e), 0);
    double all = 0, sum = 1e-20, products = 0, total = 0;
    for (std::int64_t j = 0; j < e; ++j) {
      const double x = logits.Get({i, j});
      p.push_back(is_softmax ? std::exp(x) : 1 / (1 + std::exp(-x)));
      all += is_softmax ? p.back() : 0;
    }
    for (double& v : p) v /= is_softmax ? all : 1;
    const auto id = [&](std::int64_t a) { return ids.GetInt(i * top + a); };
    const auto dw = [&](std::int64_t a) { return std::fabs(call.array("dweights").Get({i, a})); };
    for (std::int64_t a = 0; a < top; ++a) {
      if (id(a) < 0) continue;
      sum += p[std::size_t(id(a))];
      products += dw(a) * p[std::size_t(id(a))];
    }
    const bool renormalize = call.integer("renormalize") != 0;
    const double scaling = std::fabs(call.number("scaling"));
    for (std::int64_t a = 0; a < top; ++a) {
      if (id(a) < 0) continue;
      dp[std::size_t(id(a))] += scaling * (renormalize ? (dw(a) + products / sum) / sum : dw(a));
    }
    for (std::size_t j = 0; j < p.size(); ++j) total += dp[j] * p[j];
    for (std::size_t j = 0; j < p.size(); ++j) {
      terms.push_back(is_softmax ? p[j] * (dp[j] + total) : dp[j] * p[j] * (1 + p[j]));
    }
  }
  const double k = (12 + std::sqrt(double(e))) * kU;
  return [terms, k](const Element& x) {
    return 0.51 * x.ulp() + k * terms[std::size_t(x.index)] + 0x1p-126;
  };
}

const OpTest kTopkRouterBackward{
    .op = "topk_router_backward",
    .tolerance = Tolerance(GradientTerms),
    .row_invariant = true,
    .row_variable = "t",
    .sizes = {"t = 5, e = 128, top = 8", "t = 3, e = 257, top = 20"},
    .ranges = {{"scaling", {0.5, 3}}, {"logits", {-6, 6}}},
};
TEST(TopkRouterBackward, MatchesItsReference) { CheckAll(kTopkRouterBackward); }

Call Route(const Array& logits, int top, const char* scoring = "sigmoid") {
  Call call("topk_router");
  call.Set("logits", logits).Set("top", top).Set("scoring", scoring);
  return call;
}
Array Row(std::initializer_list<double> values) {
  return Array(DType::kF32, {1, std::int64_t(values.size())}, values);
}
void ExpectIds(Call call, std::initializer_list<double> expected) {
  const auto n = std::int64_t(expected.size());
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("ids")->second, Array(DType::kI32, {1, n}, expected)) << kernel;
  }
}
void ExpectWeights(Call call, const std::vector<double>& expected) {
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    for (std::size_t a = 0; a < expected.size(); ++a) {
      const double weight = results.find("weights")->second.Get(std::int64_t(a));
      if (std::isnan(expected[a])) {
        EXPECT_TRUE(std::isnan(weight)) << kernel;
      } else {
        EXPECT_NEAR(weight, expected[a], 1e-6 * std::fabs(expected[a])) << kernel << " " << a;
      }
    }
  }
}

TEST(TopkRouter, TakesTheLowerOfEquals) {
  ExpectIds(Route(Row({1, 3, 1, 3, -0.0, 0.0}), 4), {1, 3, 0, 2});
  ExpectIds(Route(Row({-1, -0.0, 0.0}), 2, "softmax"), {1, 2});
  // Groups {0, 1}, {2, 3}, {4, 5} of equal scores.
  Call call = Route(Row({0, 2, 2, 1, -1, 2}), 2);
  ExpectIds(call.Set("num_groups", 3).Set("top_groups", 2), {1, 2});
}

TEST(TopkRouter, NeverWeighsTheBias) {
  Call call = Route(Row({0, 0, 0}), 2);
  call.Set("bias", Array(DType::kF32, {3}, {0, 2, 1}));
  ExpectIds(call, {1, 2});
  ExpectWeights(call, {0.5, 0.5});
  ExpectWeights(call.Set("scaling", 3.0), {1.5, 1.5});
}

TEST(TopkRouter, RenormalizesOverTheChosen) {
  Call call = Route(Row({std::log(3.0), 0, std::log(2.0), -kInf}), 2, "softmax");
  ExpectWeights(call, {3 / 6.0, 2 / 6.0});
  ExpectWeights(call.Set("renormalize", true), {0.6, 0.4});
  ExpectWeights(call.Set("scaling", 2.5), {1.5, 1});
  // Nothing to divide by.
  ExpectWeights(Route(Row({-kInf, -kInf}), 1).Set("renormalize", true), {0});
}

TEST(TopkRouter, AddsUpTheBestOfAGroup) {
  // Scores by the best: 2, 1.5, 1; by the best two: 2, 3, 2; by three: 2, 3, 3.
  const Array logits = Row({0, 0, 0, 0, 0, 0, 0, 0, 0});
  const Array bias(DType::kF32, {9}, {1.5, -0.5, -0.5, 1, 1, -0.5, 0.5, 0.5, 0.5});
  Call call = Route(logits, 1);
  call.Set("bias", bias).Set("num_groups", 3);
  ExpectIds(call.Set("group_best", 1), {0});
  ExpectIds(call.Set("group_best", 2), {3});
  ExpectIds(call.Set("group_best", 0), {3});  // 2, as there is a bias
  ExpectIds(call.Set("group_best", 3), {3});
  Call plain = Route(Row({3, -9, 2, 2}), 1);
  ExpectIds(plain.Set("num_groups", 2), {0});  // 1 without a bias
}

TEST(TopkRouter, LeavesOutTheOtherGroups) {
  Call call = Route(Row({9, 1, 8, 7, 2, 3, 0, 0}), 3);
  call.Set("num_groups", 4).Set("top_groups", 2);
  ExpectIds(call, {0, 2, 3});
  ExpectIds(call.Set("logits", Row({9, -9, 2, 3, 8, 7, 0, 0})), {0, 4, 5});
}

TEST(TopkRouter, GivesTheFirstExpertsAndNaNForARowOfSoftmaxWithNaN) {
  for (const double bad : {kNan, kInf}) {
    Call call = Route(Row({1, 2, 5, bad, 9, 3}), 3, "softmax");
    ExpectIds(call, {0, 1, 2});
    ExpectWeights(call, {kNan, kNan, kNan});
    call.Set("num_groups", 2).Set("top_groups", 1);
    ExpectIds(call, {0, 1, 2});
  }
}

TEST(TopkRouter, RanksAnExpertOfNaNLast) {
  Call call = Route(Row({kNan, 1, kNan, -kInf, 2}), 4);
  ExpectIds(call, {4, 1, 3, 0});
  ExpectWeights(call, {0.8807971, 0.7310586, 0, kNan});
}

TEST(TopkRouter, TakesExpertsAtMinusInfinityWhenNothingElseIsLeft) {
  Call call = Route(Row({1, 2, 3, 4, 5, 6}), 3);
  call.Set("bias", Array(DType::kF32, {6}, {-kInf, 0, -kInf, 0, kNan, -kInf}));
  ExpectIds(call, {3, 1, 0});
  ExpectIds(call.Set("top", 6), {3, 1, 0, 2, 5, 4});
}

TEST(TopkRouter, RefusesGroupsThatDoNotDivideAndTooFewExperts) {
  const Array logits = Row({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Route(logits, 1).Set("num_groups", 4).Refusal(),
            "topk_router: e % num_groups == 0 must hold, but num_groups is 4, e is 6 "
            "(logits is f32[1, 6]).");
  EXPECT_EQ(Route(logits, 4).Set("num_groups", 2).Refusal(),
            "topk_router: top <= e / num_groups * top_groups must hold, but top is 4, "
            "num_groups is 2, top_groups is 1, e is 6 (logits is f32[1, 6]).");
  EXPECT_EQ(Route(logits, 0).Refusal(), "topk_router: top >= 1 must hold, but top is 0.");
}

TEST(TopkRouterBackward, SkipsMinusOneAndRefusesAnExpertThatIsNotThere) {
  Call call("topk_router_backward");
  call.Set("dweights", Row({4, 9})).Set("logits", Row({0, 0, 0})).Set("scoring", "sigmoid");
  call.Set("ids", Array(DType::kI32, {1, 2}, {2, -1}))
      .Set("renormalize", false)
      .Set("scaling", 2.0);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dlogits")->second, Row({0, 0, 2})) << kernel;
  }
  call.Set("ids", Array(DType::kI32, {1, 2}, {2, 3}));
  const std::string text = call.Refusal();
  EXPECT_EQ(text.rfind("topk_router_backward: ids[0, 1] is 3, but must be less than 3", 0), 0u)
      << text;
}

}  // namespace
}  // namespace anyop::optest::topk_router_test
