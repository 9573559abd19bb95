// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "ops/attention/backward.h"
#include "ops/attention/testing.h"
#include "optest/gtest/sizes.h"
#include "optest/optest.h"

namespace anyop::optest::attention_backward_test {
namespace {

Allowed BackwardTolerance(const Call& call) {
  auto bounds = std::make_shared<BackwardBounds>(call);
  return [bounds](const Element& e) {
    return 0.51 * e.ulp() + bounds->of(e.result).at(std::size_t(e.index));
  };
}

const OpTest kAttentionBackward{
    .op = "attention_backward",
    .tolerance = Tolerance(BackwardTolerance),
    .sizes = {"tq = 130, tk = 130, b = 2, hq = 4, hkv = 2, dk = 24, dv = 24, l = 130",
              "tq = 33, tk = 65, b = 1, hq = 2, hkv = 1, dk = 72, dv = 40, l = 33",
              "tq = 40, tk = 330, b = 1, hq = 3, hkv = 1, dk = 1, dv = 1, l = 40",
              "tq = 3, tk = 300, b = 1, hq = 12, hkv = 12, dk = 3, dv = 2, l = 0, "
              "window_left = -1",
              "tq = 9, tk = 40, b = 3, hq = 17, hkv = 1, dk = 7, dv = 5, l = 0",
              "tq = 66, tk = 9, b = 2, hq = 2, hkv = 2, dk = 17, dv = 1, l = 66"},
    .values = {{"window_left", {-1, 0, 7}}, {"window_right", {-1, 0, 3}}, {"softcap", {0, 2.5}}},
    .prepare = UseForward,
};
TEST(AttentionBackward, MatchesItsReference) { CheckAll(kAttentionBackward); }

// Random tensors of one sequence: n queries and keys, 2/1 heads of 8.
Call Example(std::int64_t n) {
  Call call("attention_backward", 3);
  for (const char* name : {"dy", "query", "key", "value"}) {
    Array a(DType::kF32, {n, *name == 'k' || *name == 'v' ? 1 : 2, 8});
    for (std::int64_t i = 0; i < a.size(); ++i) a.Set(i, double(call.Draw(-100, 100)) / 50);
    call.Set(name, a);
  }
  const Array starts(DType::kI32, {2}, {0, double(n)});
  call.Set("query_start_loc", starts).Set("key_start_loc", starts).Set("causal", true);
  call.Set("window_left", -1).Set("window_right", -1).Set("softcap", 0.0);
  call.Set("y", Array(DType::kF32, {n, 2, 8})).Set("lse", Array(DType::kF32, {2, n}));
  UseForward(call);
  return call;
}

TEST(AttentionBackward, SumsTheGradientsOfValuesToThoseOfResults) {
  Call call = Example(150);  // weights of a row sum to 1
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array &dvalue = results.find("dvalue")->second, &dy = call.array("dy");
    for (std::int64_t e = 0; e < 8; ++e) {
      double of_values = 0, of_results = 0;
      for (std::int64_t i = 0; i < 150; ++i) {
        of_values += dvalue.Get({i, 0, e});
        of_results += dy.Get({i, 0, e}) + dy.Get({i, 1, e});
      }
      EXPECT_NEAR(of_values, of_results, 1e-3) << kernel;
    }
  }
}

TEST(AttentionBackward, ComputesAnEmptyLseAgain) {
  Call call = Example(150);
  const auto expected = call.RunEveryKernel();
  call.Set("lse", Array(DType::kF32, {2, 0}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    for (const auto& [name, result] : results) {
      const Array& with_lse = expected.at(kernel).find(name)->second;
      for (std::int64_t i = 0; i < result.size(); ++i) {
        EXPECT_NEAR(result.Get(i), with_lse.Get(i), 1e-5) << kernel << " " << name << " " << i;
      }
    }
  }
}

TEST(AttentionBackward, KeepsHiddenPairsApart) {
  const std::int64_t n = 70;
  const double nan = std::nan("");
  Call call = Example(n);
  for (std::int64_t e = 0; e < 8; ++e) {
    call.array("key").Set({n - 1, 0, e}, nan);  // the last key: seen by the last query only
    call.array("value").Set({n - 1, 0, e}, nan);
    call.array("dy").Set({0, 1, e}, nan);  // the first query sees the first key only
  }
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array &dquery = results.find("dquery")->second, &dkey = results.find("dkey")->second;
    const Array& dvalue = results.find("dvalue")->second;
    for (std::int64_t i = 0; i < dquery.size(); ++i) {
      const bool is_odd = i / 16 == n - 1 || i / 8 == 1;
      EXPECT_EQ(std::isnan(dquery.Get(i)), is_odd) << kernel << " dquery " << i;
    }
    for (std::int64_t i = 8; i < (n - 1) * 8; ++i) {
      EXPECT_EQ(std::isnan(dvalue.Get(i)), false) << kernel << " dvalue " << i;
    }
    EXPECT_TRUE(std::isnan(dkey.Get(0))) << kernel;
    EXPECT_TRUE(std::isnan(dkey.Get((n - 1) * 8))) << kernel;
  }
}

TEST(AttentionBackward, GivesZerosToWhatNoSequenceHolds) {
  Call call = Example(6);
  call.Set("query_start_loc", Array(DType::kI32, {3}, {0, 2, 3}));
  call.Set("key_start_loc", Array(DType::kI32, {3}, {0, 0, 4}));  // the first one has no keys
  UseForward(call);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const auto is_zero = [&](const char* name, std::int64_t token) {
      const Array& a = results.find(name)->second;
      for (std::int64_t i = 0; i < a.dim(1) * 8; ++i) {
        if (a.Get(token * a.dim(1) * 8 + i) != 0) return false;
      }
      return true;
    };
    for (std::int64_t t = 0; t < 6; ++t) {
      EXPECT_EQ(is_zero("dquery", t), t != 2) << kernel << " " << t;
      EXPECT_EQ(is_zero("dkey", t), t > 3) << kernel << " " << t;
      EXPECT_EQ(is_zero("dvalue", t), t > 3) << kernel << " " << t;
    }
  }
}

TEST(AttentionBackward, GetsNothingFromARowWithoutFiniteScores) {
  Call call = Example(20);
  const double infinity = std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < 20; ++i) call.array("key").Set({i, 0, 0}, 1);
  for (std::int64_t e = 0; e < 8; ++e) call.array("query").Set({7, 1, e}, e == 0 ? -infinity : 0);
  Call without = call;  // the same without that row
  UseForward(call);
  ASSERT_EQ(call.array("lse").Get({1, 7}), -infinity);
  for (std::int64_t e = 0; e < 8; ++e) without.array("query").Set({7, 1, e}, 0);
  UseForward(without);
  for (std::int64_t e = 0; e < 8; ++e) without.array("dy").Set({7, 1, e}, 0);
  const auto expected = without.RunEveryKernel();
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    for (const auto& [name, result] : results) {
      EXPECT_EQ(result, expected.at(kernel).find(name)->second) << kernel << " " << name;
    }
  }
}

TEST(AttentionBackward, RefusesAnLseOfAnotherSize) {
  Call call = Example(4);
  call.Set("lse", Array(DType::kF32, {2, 3}));
  EXPECT_EQ(call.Refusal(),
            "attention_backward: l == 0 or l == tq must hold, but tq is 4 (dy is f32[4, 2, 8]), l "
            "is 3 (lse is f32[2, 3]).");
}

TEST(AttentionBackward, HasAWorkspaceOfOneSizeInNamesAndInNumbers) {
  ExpectTheSameBytes<ops::SizeText>([](const auto& s) {
    using ops::Min;  // of numbers
    using N = std::decay_t<decltype(s[0])>;
    const N heads = s[3] + N(1), runs_forward = Min(N(1), s[0]);
    const ops::AttentionDims<N> dims{s[0], s[1], s[2], s[4] * heads, heads, s[5], s[6], s[7]};
    return ops::BackwardWorkspace<N>(dims, runs_forward, N(2));
  });
}

}  // namespace
}  // namespace anyop::optest::attention_backward_test
