// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <limits>

namespace anyop::optest::merge_attention_states_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Relative 8u on the weights and D(parts): terms() is not it, its weights are of |lse|.
Allowed OfParts(const Call& call) {
  Call copy = call;
  double largest = 0;
  const auto parts = double(copy.arrays("outs").size());
  for (const Array& a : copy.arrays("outs")) {
    for (std::int64_t i = 0; i < a.size(); ++i) {
      if (std::isfinite(a.Get(i))) largest = std::fmax(largest, std::fabs(a.Get(i)));
    }
  }
  return [=](const Element& e) {
    if (e.result == "lse") return 2 * e.ulp() + 8 * kU;
    return 0.51 * e.ulp() + (12 + 2 * std::sqrt(parts)) * kU * largest;
  };
}

const OpTest kMerge{
    .op = "merge_attention_states",
    .tolerance = OfParts,
    .sizes = {"t = 16, h = 32, d = 128", "t = 33, h = 3, d = 67"},
    .ranges = {{"lses", {-8, 8}}},
};
TEST(MergeAttentionStates, MatchesItsReference) { CheckAll(kMerge); }

Call TwoParts(std::int64_t t, double out0, double lse0, double out1, double lse1) {
  Call call("merge_attention_states");
  call.Set("outs", std::vector<Array>{Array(DType::kF32, {t, 2, 5}, {out0}),
                                      Array(DType::kF32, {t, 2, 5}, {out1})});
  call.Set("lses", std::vector<Array>{Array(DType::kF32, {2, t}, {lse0}),
                                      Array(DType::kF32, {2, t}, {lse1})});
  return call;
}
void Expect(Call call, double y, double lse) {
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array &a = results.find("y")->second, &b = results.find("lse")->second;
    for (std::int64_t i = 0; i < a.size(); ++i) EXPECT_EQ(a.Get(i), y) << kernel << " " << i;
    for (std::int64_t i = 0; i < b.size(); ++i) EXPECT_EQ(b.Get(i), lse) << kernel << " " << i;
  }
}

TEST(MergeAttentionStates, WeighsPartsByTheirSums) {
  Expect(TwoParts(37, 1, 5, 3, 5), 2, double(5 + std::log(2.0f)));
}

TEST(MergeAttentionStates, LeavesOutWhatHasNoWeight) {
  for (const double none : {-kInf, kInf}) {
    Expect(TwoParts(37, 7, 3, std::nan(""), none), 7, 3);
    Expect(TwoParts(37, std::nan(""), none, 7, 3), 7, 3);
    Expect(TwoParts(37, std::nan(""), none, 7, none), 0, -kInf);
  }
}

TEST(MergeAttentionStates, SurvivesSumsOfAnySize) {
  Expect(TwoParts(5, 1, 3e38, 3, 3e38), 2, double(3e38f));
  Expect(TwoParts(5, 1, -3e38, 3, 3e38), 3, double(3e38f));
}

// A token alone has the bits that it has among others; t is no first dimension of lses.
TEST(MergeAttentionStates, ATokenAloneHasTheBitsOfTheBatch) {
  const std::int64_t t = 9, h = 3, d = 37, parts = 4;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Call whole("merge_attention_states", 5);
    std::vector<Array> outs(parts, Array(dtype, {t, h, d})),
        lses(parts, Array(DType::kF32, {h, t}));
    for (std::vector<Array>* list : {&outs, &lses}) {
      for (Array& a : *list) {
        for (std::int64_t i = 0; i < a.size(); ++i) a.Set(i, double(whole.Draw(-4000, 4000)) / 999);
      }
    }
    whole.Set("outs", outs).Set("lses", lses);
    const auto together = whole.RunEveryKernel();
    for (std::int64_t i = 0; i < t; ++i) {
      std::vector<Array> out(parts, Array(dtype, {1, h, d})),
          lse(parts, Array(DType::kF32, {h, 1}));
      for (std::size_t a = 0; a < std::size_t(parts); ++a) {
        for (std::int64_t x = 0; x < h * d; ++x) out[a].Set(x, outs[a].Get(i * h * d + x));
        for (std::int64_t x = 0; x < h; ++x) lse[a].Set(x, lses[a].Get({x, i}));
      }
      Call alone("merge_attention_states");
      alone.Set("outs", out).Set("lses", lse);
      for (const auto& [kernel, results] : alone.RunEveryKernel()) {
        const Results& all = together.at(kernel);
        for (std::int64_t x = 0; x < h * d; ++x) {
          ASSERT_EQ(results.at("y").Get(x), all.at("y").Get(i * h * d + x)) << kernel;
        }
        for (std::int64_t x = 0; x < h; ++x) {
          ASSERT_EQ(results.at("lse").Get(x), all.at("lse").Get({x, i})) << kernel;
        }
      }
    }
  }
}

TEST(MergeAttentionStates, RefusesListsOfDifferentLength) {
  Call call = TwoParts(2, 1, 1, 1, 1);
  call.arrays("lses").pop_back();
  EXPECT_EQ(call.Refusal(),
            "merge_attention_states: len(outs) == len(lses) must hold, but outs is [f32[2, 2, 5], "
            "f32[2, 2, 5]], lses is [f32[2, 2]].");
  call.arrays("lses").clear();
  call.arrays("outs").clear();
  EXPECT_EQ(call.Refusal(), "merge_attention_states: len(outs) >= 1 must hold, but outs is [].");
}

}  // namespace
}  // namespace anyop::optest::merge_attention_states_test
