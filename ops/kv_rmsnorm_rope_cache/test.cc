// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace anyop::optest::kv_rmsnorm_rope_cache_test {
namespace {

// Every token to a place of its own, some to none.
void Place(Call& call) {
  Array& index = call.array("index");
  const Array& cache = call.array("k_cache");
  const bool paged = call.word("cache_mode") == "paged";
  const std::int64_t places = paged ? cache.dim(0) * cache.dim(1) : cache.dim(1);
  const std::int64_t tokens = index.size(), batches = paged ? 1 : index.dim(0);
  const std::int64_t each = batches ? tokens / batches : 0;
  for (std::int64_t b = 0; b < batches; ++b) {
    std::vector<std::int64_t> free(std::size_t(std::max(places, each)), -1);
    std::iota(free.begin(), free.begin() + places, 0);
    std::shuffle(free.begin(), free.end(), call.random());
    for (std::int64_t i = 0; i < each; ++i) {
      index.SetInt(b * each + i, call.Draw(0, 4) ? free[std::size_t(i)] : -1);
    }
  }
}

// Caches of i8 become floats: their errors are another test's.
void PlaceFloats(Call& call) {
  for (const char* name : {"k_cache", "ckv_cache"}) {
    const Array& cache = call.array(name);
    if (cache.dtype() == DType::kI8) call.Set(name, Array(DType::kF32, cache.shape()));
  }
  Place(call);
}

double Most(const Array& x) {
  double most = 0;
  for (std::int64_t i = 0; i < x.size(); ++i) most = std::max(most, std::fabs(x.Get(i)));
  return most;
}

// (6 + 2 sqrt(c)) u |exact| of what is normalized, 3u (|a| + |b|) max(|c|, |s|) of a pair.
Allowed Allowance(const Call& call) {
  const double turn =
      6 * kU * Most(call.array("kv")) * std::max(Most(call.array("cos")), Most(call.array("sin")));
  const double norm = (6 + 2 * std::sqrt(double(call.array("weight").dim(0)))) * kU;
  return [turn, norm](const Element& e) {
    const bool is_latent = e.result.substr(0, 3) == "ckv";
    return 0.51 * e.ulp() + (is_latent ? norm * std::fabs(e.exact) + 0x1p-126 : turn);
  };
}

const OpTest kFloats{
    .op = "kv_rmsnorm_rope_cache",
    .tolerance = Tolerance(Allowance),
    .sizes = {"t = 5, c = 512, r = 64, nb = 3, bs = 16", "b = 2, s = 5, c = 512, r = 64, p = 7"},
    .prepare = PlaceFloats,
};
TEST(KvRmsnormRopeCache, MatchesItsReference) { CheckAll(kFloats); }

// i8 may differ by 1 where the exact value is next to a tie: seldom.
std::string JudgeBytes(const Call& call, const Array& actual, const Array& exact) {
  (void)call;
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < actual.size(); ++i) {
    const double difference = std::fabs(actual.Get(i) - exact.Get(i));
    if (difference > 1) return actual.IndexText(i) + " differs by " + std::to_string(difference);
    different += difference != 0;
  }
  return different > 2 + actual.size() / 500 ? std::to_string(different) + " elements differ" : "";
}

const OpTest kBytes{
    .op = "kv_rmsnorm_rope_cache",
    .tolerance = Tolerance(Allowance),
    .ranges = {{"k_scale", {5, 60}}, {"ckv_scale", {5, 60}}},
    .prepare =
        [](Call& call) {
          for (const char* name : {"k_cache", "ckv_cache"}) {
            const Array& cache = call.array(name);
            if (cache.dtype() != DType::kI8) call.Set(name, Array(DType::kI8, cache.shape()));
          }
          const std::int64_t r = call.array("cos").dim(-1), c = call.array("weight").dim(0);
          if (!call.given("k_scale")) call.Set("k_scale", Array(DType::kF32, {r}, {30}));
          if (!call.given("ckv_scale")) call.Set("ckv_scale", Array(DType::kF32, {c}, {30}));
          Place(call);
        },
    .judges = {{"k_cache", JudgeBytes}, {"ckv_cache", JudgeBytes}},
};
TEST(KvRmsnormRopeCache, QuantizesAsItsReference) { CheckValues(kBytes); }

// A latent part of (3, -1) with mean square 5, the pairs (1, 2) and (3, 4).
Call OneToken(double index, const Array& k_cache, const Array& ckv_cache) {
  Call call("kv_rmsnorm_rope_cache");
  call.Set("kv", Array(DType::kF32, {1, 6}, {3, -1, 1, 2, 3, 4}));
  call.Set("weight", Array(DType::kF32, {2}, {2, 4})).Set("eps", 4.0);  // 1 / sqrt(9)
  call.Set("cos", Array(DType::kF32, {1, 4}, {1, 2, 3, 4}));
  call.Set("sin", Array(DType::kF32, {1, 4}, {10, 20, 30, 40}));
  call.Set("index", Array(DType::kI32, {1}, {index}));
  return call.Set("k_cache", k_cache).Set("ckv_cache", ckv_cache);
}
// k: 1*1 - 2*10, 3*2 - 4*20, 2*3 + 1*30, 4*4 + 3*40
constexpr double kKey[] = {-19, -74, 36, 136}, kLatent[] = {2, -4.0 / 3};

void Expect(Call call, std::string_view result, const std::vector<double>& expected) {
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& actual = results.find(result)->second;
    ASSERT_EQ(actual.size(), std::int64_t(expected.size())) << kernel;
    for (std::int64_t i = 0; i < actual.size(); ++i) {
      EXPECT_NEAR(actual.Get(i), expected[std::size_t(i)], 1e-6) << kernel << " " << i;
    }
  }
}

TEST(KvRmsnormRopeCache, TakesPairsOfNeighboursAndGivesHalves) {
  Call call = OneToken(3, Array(DType::kF32, {2, 2, 4}, {7}), Array(DType::kF32, {2, 2, 2}, {7}));
  Expect(call, "k_cache", {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, kKey[0], kKey[1], kKey[2], kKey[3]});
  Expect(call, "ckv_cache", {7, 7, 7, 7, 7, 7, kLatent[0], kLatent[1]});
  Expect(call, "k", {});
  Expect(call.Set("output_kv", true), "k", {kKey[0], kKey[1], kKey[2], kKey[3]});
  Expect(call, "ckv", {kLatent[0], kLatent[1]});
}

TEST(KvRmsnormRopeCache, StoresNothingForMinusOneAndGivesTheResultsStill) {
  Call call = OneToken(-1, Array(DType::kF32, {1, 1, 4}, {7}), Array(DType::kF32, {1, 1, 2}, {7}));
  Expect(call.Set("output_kv", true), "k_cache", {7, 7, 7, 7});
  Expect(call, "ckv_cache", {7, 7});
  Expect(call, "k", {kKey[0], kKey[1], kKey[2], kKey[3]});
}

TEST(KvRmsnormRopeCache, SubtractsAnOffsetThenMultipliesByAScale) {
  Call call = OneToken(0, Array(DType::kI8, {1, 1, 4}), Array(DType::kI8, {1, 1, 2}));
  call.Set("k_scale", Array(DType::kF32, {4}, {0.5, 2, 0.25, 0.5}));
  call.Set("ckv_scale", Array(DType::kF32, {2}, {100, 30}));
  Expect(call, "k_cache", {-10, -128, 9, 68});  // -9.5 to even
  Expect(call, "ckv_cache", {127, -40});
  call.Set("k_offset", Array(DType::kF32, {4}, {1, -70, 0, 0}));
  Expect(call, "k_cache", {-10, -8, 9, 68});
}

TEST(KvRmsnormRopeCache, KeepsPlacesByTheRowOfTheBatchInModeNorm) {
  Call call("kv_rmsnorm_rope_cache");
  call.Set("kv", Array(DType::kF32, {2, 1, 3}, {0, 1, 0, 0, 2, 0}));
  call.Set("weight", Array(DType::kF32, {1}, {1})).Set("cache_mode", "norm").Set("eps", 1.0);
  call.Set("cos", Array(DType::kF32, {2, 1, 2}, {1}))
      .Set("sin", Array(DType::kF32, {2, 1, 2}, {0}));
  call.Set("index", Array(DType::kI64, {2, 1}, {1, 0}));
  call.Set("k_cache", Array(DType::kF32, {2, 2, 2}, {7}));
  call.Set("ckv_cache", Array(DType::kF32, {2, 2, 1}, {7}));
  Expect(call, "k_cache", {7, 7, 1, 0, 2, 0, 7, 7});
  Expect(call, "ckv_cache", {7, 0, 0, 7});
  const Checking checking;  // one place in each row of the batch
  EXPECT_NO_THROW(call.Set("index", Array(DType::kI64, {2, 1}, {1, 1})).Run());
}

TEST(KvRmsnormRopeCache, RefusesTwoTokensInOnePlaceInCheckMode) {
  Call call("kv_rmsnorm_rope_cache");
  call.Set("kv", Array(DType::kF32, {3, 3}, {1})).Set("weight", Array(DType::kF32, {1}, {1}));
  call.Set("cos", Array(DType::kF32, {3, 2}, {1})).Set("sin", Array(DType::kF32, {3, 2}, {0}));
  call.Set("index", Array(DType::kI64, {3}, {1, -1, 1}));
  call.Set("k_cache", Array(DType::kF32, {2, 2, 2}))
      .Set("ckv_cache", Array(DType::kF32, {2, 2, 1}));
  EXPECT_NO_THROW(call.Run());
  const Checking checking;
  EXPECT_EQ(call.Refusal(),
            "kv_rmsnorm_rope_cache: index[2] is 1, but must differ from index[0], because a place "
            "of the caches holds one token.");
}

TEST(KvRmsnormRopeCache, RefusesAPlaceThatIsNotThereAndBytesWithoutAScale) {
  const Array k_cache(DType::kI8, {1, 2, 4}), ckv_cache(DType::kI8, {1, 2, 2});
  const std::string text =
      OneToken(2, Array(DType::kF32, {1, 2, 4}), Array(DType::kF32, {1, 2, 2})).Refusal();
  EXPECT_EQ(text.rfind("kv_rmsnorm_rope_cache: index[0] is 2, but must be less than 2", 0), 0u)
      << text;
  EXPECT_EQ(OneToken(1, k_cache, ckv_cache).Refusal(),
            "kv_rmsnorm_rope_cache: C != i8 or (given(k_scale) and given(ckv_scale)) must hold, "
            "but k_scale is None, ckv_scale is None, C is i8 (k_cache is i8[1, 2, 4]).");
}

}  // namespace
}  // namespace anyop::optest::kv_rmsnorm_rope_cache_test
