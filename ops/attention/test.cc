// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "anyop/scope.h"
#include "ops/common/attention/testing.h"

namespace anyop::optest::attention_test {
namespace {

Allowed PackedTolerance(const Call& call) {
  return AttentionAllowed(call,
                          {.dk = call.value("dk"),
                           .keys = call.value("tk") + 1,
                           .key_sum = LargestSum(call.array("query")) * LargestOf(call, "key"),
                           .values = "value"});
}

const OpTest kAttention{
    .op = "attention",
    .tolerance = Tolerance(PackedTolerance),
    .sizes = {"tq = 1, tk = 700, b = 1, hq = 9, hkv = 3, dk = 64, dv = 64",
              "tq = 130, tk = 130, b = 2, hq = 4, hkv = 2, dk = 80, dv = 80",
              "tq = 33, tk = 65, b = 1, hq = 2, hkv = 1, dk = 192, dv = 128",
              "tq = 9, tk = 40, b = 3, hq = 17, hkv = 1, dk = 7, dv = 5"},
    .values = {{"window_left", {-1, 0, 7}}, {"window_right", {-1, 0, 3}}, {"softcap", {0, 2.5}}},
};
TEST(Attention, MatchesItsReference) { CheckAll(kAttention); }

TEST(Attention, KeepsItsPromiseOnEveryMachine) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const std::int64_t n : {1, 3, 100, 300}) {
      Call call("attention", std::uint64_t(n));
      Array q(dtype, {n, 4, 64}), k(dtype, {n, 2, 64}), v = k;
      for (Array* x : {&q, &k, &v}) FillNormal(call, *x);
      const Array starts(DType::kI32, {2}, {0, double(n)});
      call.Set("query", q).Set("key", k).Set("value", v);
      call.Set("query_start_loc", starts).Set("key_start_loc", starts);
      ExpectPromised(call, dtype);
    }
  }
}

Array Starts(std::initializer_list<double> starts) {
  return Array(DType::kI32, {std::int64_t(starts.size())}, starts);
}
// Keys of zeros and values j: every visible key has the same weight.
Call Even(std::initializer_list<double> queries, std::initializer_list<double> keys) {
  Call call("attention");
  const auto tq = std::int64_t(std::max(queries)), tk = std::int64_t(std::max(keys));
  Array value(DType::kF32, {tk, 1, 1});
  for (std::int64_t j = 0; j < tk; ++j) value.Set(j, double(j));
  call.Set("query", Array(DType::kF32, {tq, 1, 1}, {1}));
  call.Set("key", Array(DType::kF32, {tk, 1, 1})).Set("value", value);
  call.Set("query_start_loc", Starts(queries)).Set("key_start_loc", Starts(keys));
  return call;
}
void ExpectNear(Call call, std::initializer_list<double> expected) {
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& y = results.find("y")->second;
    ASSERT_EQ(y.size(), std::int64_t(expected.size()));
    for (std::int64_t i = 0; i < y.size(); ++i) {
      EXPECT_NEAR(y.Get(i), expected.begin()[i], 1e-5) << kernel << " y" << y.IndexText(i);
    }
  }
}

TEST(Attention, KeepsSequencesApart) {
  ExpectNear(Even({0, 2, 2, 3}, {0, 3, 4, 6}), {0.5, 1, 4.5});
}

TEST(Attention, LetsEarlyQueriesOfAShortSequenceSeeNothing) {
  ExpectNear(Even({0, 3}, {0, 2}), {0, 0, 0.5});
}

TEST(Attention, GivesZerosForASequenceWithoutKeys) {
  ExpectNear(Even({0, 1, 2}, {0, 0, 2}), {0, 0.5});
}

TEST(Attention, CapsScores) {
  // One key with score 10 capped to 2 tanh 5, one with 0; values 0 and 1.
  Call call = Even({0, 1}, {0, 2}).Set("softcap", 2.0).Set("scale", 1.0).Set("causal", false);
  call.array("key").Set(0, 10);
  const double w = std::exp(2 * std::tanh(5.0));
  ExpectNear(call, {1 / (1 + w)});
}

TEST(Attention, IgnoresKeysThatAreFarTooSmallToCount) {
  Call call = Even({0, 1}, {0, 2}).Set("scale", 1.0);
  call.array("key").Set(0, -1e4);
  call.array("key").Set(1, 1e4);
  ExpectNear(call, {1});
}

TEST(Attention, TreatsMinusInfinityEverywhereAsNoKey) {
  Call call = Even({0, 1}, {0, 2}).Set("scale", 1.0).Set("return_lse", true);
  const double infinity = std::numeric_limits<double>::infinity();
  call.array("key").Set(0, -infinity);
  call.array("key").Set(1, -infinity);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second.Get(0), 0) << kernel;
    EXPECT_EQ(results.find("lse")->second.Get(0), -infinity) << kernel;
  }
}

TEST(Attention, LetsNaNThroughFromAVisibleKey) {
  for (const bool sinks : {false, true}) {
    Call call = Even({0, 1}, {0, 2});
    if (sinks) call.Set("sinks", Array(DType::kF32, {1}, {0}));
    call.array("key").Set(0, std::nan(""));
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_TRUE(std::isnan(results.find("y")->second.Get(0))) << kernel;
    }
  }
}

// Many rows meet the same keys, of which each sees its own.
TEST(Attention, LetsNaNOfAValueIntoRowsThatSeeIt) {
  const std::int64_t tokens = 150, left = 70;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t odd : {0, 63, 64, 100, 149}) {
      Call call("attention");
      for (const char* name : {"query", "key", "value"}) {
        Array a(dtype, {tokens, 1, 16});
        for (std::int64_t i = 0; i < a.size(); ++i) a.Set(i, double(i * 7 % 13 - 6) / 8);
        if (std::string_view(name) == "value") a.Set({odd, 0, 3}, std::nan(""));
        call.Set(name, a);
      }
      for (const char* name : {"query_start_loc", "key_start_loc"}) {
        call.Set(name, Array(DType::kI32, {2}, {0, double(tokens)}));
      }
      call.Set("window_left", left);
      for (const auto& [kernel, results] : call.RunEveryKernel()) {
        const Array& y = results.find("y")->second;
        for (std::int64_t i = 0; i < y.size(); ++i) {
          const std::int64_t token = i / 16;
          const bool sees = i % 16 == 3 && odd <= token && odd >= token - left;
          ASSERT_EQ(std::isnan(y.Get(i)), sees) << kernel << " key " << odd << " at " << i;
        }
      }
    }
  }
}

// In batch-invariant mode a query has the same bits with other queries of its sequence before it,
// and with other sequences in the batch.
TEST(Attention, BatchInvariantBitsDoNotDependOnTheBatch) {
  Scope scope;
  scope.batch_invariant();
  const std::int64_t h = 3, d = 24, keys = 71;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const std::int64_t alone : {1, 2, 5}) {
      Call whole("attention", 7);
      Array q(dtype, {20, 2 * h, d}), k(dtype, {keys + 30, h, d}), v = k;
      for (Array* x : {&q, &k, &v}) {
        for (std::int64_t i = 0; i < x->size(); ++i) x->Set(i, double(whole.Draw(-100, 100)) / 40);
      }
      // Sequences of 13 queries over 30 keys, and of 7 over 71; the last `alone` of these 7.
      const auto tail = [](const Array& x, std::int64_t rows) {
        Array out(x.dtype(), {rows, x.dim(1), x.dim(2)});
        for (std::int64_t i = 0; i < out.size(); ++i) out.Set(i, x.Get(x.size() - out.size() + i));
        return out;
      };
      whole.Set("query", q).Set("key", k).Set("value", v);
      whole.Set("query_start_loc", Starts({0, 13, 20}));
      whole.Set("key_start_loc", Starts({0, 30, double(30 + keys)}));
      Call part("attention");
      part.Set("query", tail(q, alone)).Set("key", tail(k, keys)).Set("value", tail(v, keys));
      part.Set("query_start_loc", Starts({0, double(alone)}));
      part.Set("key_start_loc", Starts({0, double(keys)}));
      const auto all = whole.RunEveryKernel();
      for (const auto& [kernel, results] : part.RunEveryKernel()) {
        EXPECT_EQ(results.at("y"), tail(all.at(kernel).at("y"), alone))
            << kernel << ", " << Name(dtype) << ", " << alone;
      }
    }
  }
}

TEST(Attention, LeavesLseEmptyUnlessAsked) {
  Call call = Even({0, 2}, {0, 2});
  EXPECT_EQ(call.Run()["lse"].size(), 0);
  call.Set("return_lse", true);
  EXPECT_NEAR(call.Run()["lse"].Get(1), std::log(2), 1e-6);
}

TEST(Attention, EqualsAttentionOverAPagedCache) {
  const std::int64_t n = 37, h = 2, d = 24, bs = 8, blocks = 5;
  Call packed("attention", 5), paged("paged_attention", 5);
  Array q(DType::kBF16, {n, 3 * h, d}), k(DType::kBF16, {n, h, d}), v = k;
  for (Array* x : {&q, &k, &v}) {
    for (std::int64_t i = 0; i < x->size(); ++i) x->Set(i, double(packed.Draw(-100, 100)) / 50);
  }
  Array kc(DType::kBF16, {blocks, bs, h, d}), vc = kc, table(DType::kI64, {1, blocks});
  for (std::int64_t c = 0; c < blocks; ++c) table.SetInt(c, (3 * c + 1) % blocks);
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t row = table.GetInt(j / bs) * bs + j % bs;
    for (std::int64_t x = 0; x < h * d; ++x) {
      kc.Set(row * h * d + x, k.Get(j * h * d + x));
      vc.Set(row * h * d + x, v.Get(j * h * d + x));
    }
  }
  const Array starts(DType::kI64, {2}, {0, double(n)});
  packed.Set("query", q).Set("key", k).Set("value", v);
  packed.Set("query_start_loc", starts).Set("key_start_loc", starts);
  paged.Set("query", q).Set("key_cache", kc).Set("value_cache", vc).Set("block_table", table);
  paged.Set("seq_lens", Array(DType::kI64, {1}, {double(n)})).Set("query_start_loc", starts);
  const auto expected = packed.RunEveryKernel();
  for (const auto& [kernel, results] : paged.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, expected.at(kernel).find("y")->second) << kernel;
  }
}

}  // namespace
}  // namespace anyop::optest::attention_test
