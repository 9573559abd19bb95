// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>

#include "ops/common/latent/testing.h"

namespace anyop::optest::lightning_indexer_test {
namespace {

struct Scored {
  double score, error;  // exact, and how far an f32 score may be from it
};
Scored ScoreOf(const Call& call, std::int64_t token, std::int64_t position) {
  const Array &query = call.array("query"), &keys = call.array("key_cache");
  const Array &starts = call.array("query_start_loc"), &table = call.array("block_table");
  std::int64_t s = 0;
  while (starts.GetInt(s + 1) <= token) ++s;
  const std::int64_t h = query.dim(1), d = query.dim(2), bs = keys.dim(1);
  const std::int64_t block = table.GetInt(s * table.dim(1) + position / bs);
  const std::int64_t row = block * bs + position % bs;
  double score = 0, terms = 0;
  for (std::int64_t i = 0; i < h; ++i) {
    double dot = 0, sum = 0;
    for (std::int64_t e = 0; e < d; ++e) {
      const double product = query.Get((token * h + i) * d + e) * keys.Get(row * d + e);
      dot += product;
      sum += std::abs(product);
    }
    double factor = call.array("weights").Get(token * h + i);
    if (call.given("query_scale")) factor *= call.array("query_scale").Get(token * h + i);
    score += factor * std::max(dot, 0.0);
    terms += std::abs(factor) * sum;
  }
  const double scale = call.given("key_scale") ? call.array("key_scale").Get(row) : 1.0;
  const double units = 12 + 2 * std::sqrt(double(d)) + 2 * std::sqrt(double(h));
  return {score * scale, units * kU * terms * std::abs(scale)};
}

// Rising positions, then -1; those chosen in place of others have scores as close as rounding
// allows.
std::string Judge(const Call& call, const Array& actual, const Array& exact) {
  const std::int64_t top = exact.dim(1);
  for (std::int64_t token = 0; token < exact.dim(0); ++token) {
    std::set<std::int64_t> ours, theirs;
    for (std::int64_t i = 0; i < top; ++i) {
      const std::int64_t at = token * top + i, a = actual.GetInt(at), b = exact.GetInt(at);
      if ((a < 0) != (b < 0)) return "another count" + actual.IndexText(at);
      if (a < 0) continue;
      if (!ours.empty() && a <= *ours.rbegin()) return "not rising" + actual.IndexText(at);
      ours.insert(a);
      theirs.insert(b);
    }
    std::vector<std::int64_t> more, less;
    std::set_difference(ours.begin(), ours.end(), theirs.begin(), theirs.end(),
                        std::back_inserter(more));
    std::set_difference(theirs.begin(), theirs.end(), ours.begin(), ours.end(),
                        std::back_inserter(less));
    for (const std::int64_t a : more) {
      for (const std::int64_t b : less) {
        const Scored x = ScoreOf(call, token, a), y = ScoreOf(call, token, b);
        if (std::abs(x.score - y.score) > x.error + y.error) {
          return "token " + std::to_string(token) + " has " + std::to_string(a) + " in place of " +
                 std::to_string(b);
        }
      }
    }
  }
  return "";
}

const OpTest kLightningIndexer{
    .op = "lightning_indexer",
    .sizes = {"t = 1, b = 1, h = 8, d = 128, bs = 64, mb = 20, nb = 9, top = 100",
              "t = 5, b = 2, h = 5, d = 33, bs = 5, mb = 30, nb = 40, top = 7",
              "t = 3, b = 2, h = 3, d = 16, bs = 1, mb = 90, nb = 50, top = 91",
              "t = 9, b = 3, h = 1, d = 1, bs = 16, mb = 9, nb = 20, top = 60",
              "t = 2, b = 1, h = 0, d = 4, bs = 4, mb = 3, nb = 9, top = 2"},
    .not_extreme = {{"*", "what overflows f32 decides which scores are highest"}},
    .prepare = MakeLatentTables,
    .judges = {{"indices", Judge}},
};
TEST(LightningIndexer, MatchesItsReference) { CheckAll(kLightningIndexer); }

// One head of width 1 with query 1 and weight 1, one sequence in blocks of 4 that lie in reverse
// order: the score of a key is its value where that is above 0.
Call Small(const std::vector<double>& keys, std::int64_t top, std::int64_t queries = 1) {
  const std::int64_t blocks = (std::int64_t(keys.size()) + 3) / 4;
  Call call("lightning_indexer");
  Array cache(DType::kF32, {blocks, 4, 1}, {std::nan("")}), table(DType::kI32, {1, blocks});
  for (std::int64_t i = 0; i < blocks; ++i) table.SetInt(i, blocks - 1 - i);
  for (std::size_t j = 0; j < keys.size(); ++j) {
    cache.Set({blocks - 1 - std::int64_t(j) / 4, std::int64_t(j) % 4, 0}, keys[j]);
  }
  call.Set("query", Array(DType::kF32, {queries, 1, 1}, {1}));
  call.Set("weights", Array(DType::kF32, {queries, 1}, {1})).Set("key_cache", cache);
  call.Set("block_table", table).Set("seq_lens", Array(DType::kI32, {1}, {double(keys.size())}));
  Array starts(DType::kI32, {2});
  starts.SetInt(1, queries);
  return call.Set("query_start_loc", starts).Set("top", top);
}
void Expect(Call call, std::initializer_list<double> indices,
            std::initializer_list<double> counts) {
  const std::int64_t top = call.integer("top"), tokens = std::int64_t(counts.size());
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.at("indices"), Array(DType::kI32, {tokens, top}, indices)) << kernel;
    EXPECT_EQ(results.at("counts"), Array(DType::kI32, {tokens}, counts)) << kernel;
  }
}

TEST(LightningIndexer, GivesTheHighestInRisingOrder) {
  Expect(Small({3, 1, 9, 2, 8, 5}, 3), {2, 4, 5}, {3});
}

TEST(LightningIndexer, TakesAllOfFewerAndThenMinusOne) {
  Expect(Small({3, 1, 9}, 5), {0, 1, 2, -1, -1}, {3});
}

TEST(LightningIndexer, TiesGoToTheLowerPosition) {
  Expect(Small({1, 2, 1, 1, 2, 1}, 3), {0, 1, 4}, {3});
  Expect(Small({-1, -3, -2, 0, -5}, 2), {0, 1}, {2});  // max(0, .) makes them all 0
}

TEST(LightningIndexer, ANegativeWeightTurnsTheOrder) {
  Expect(Small({1, 5, 2, 3, -7}, 2).Set("weights", Array(DType::kF32, {1, 1}, {-1})), {0, 4}, {2});
}

TEST(LightningIndexer, NaNRanksLast) {
  const double nan = std::nan("");
  Expect(Small({nan, 1, nan, -4, nan}, 3), {0, 1, 3}, {3});
  Call call = Small({nan, 1, HUGE_VAL, 2}, 3).Set("weights", Array(DType::kF32, {1, 1}, {-1}));
  Expect(call, {1, 2, 3}, {3});  // below -inf
}

TEST(LightningIndexer, QueriesSeeWhatIsBeforeThem) {
  const std::vector<double> keys = {3, 1, 9, 2, 8, 5};
  Expect(Small(keys, 2, 3), {0, 2, 2, 4, 2, 4}, {2, 2, 2});
  Expect(Small({1, 2}, 2, 3), {-1, -1, 0, -1, 0, 1}, {0, 1, 2});
  Expect(Small(keys, 2, 2).Set("causal", false), {2, 4, 2, 4}, {2, 2});
}

TEST(LightningIndexer, MissingBlocksAreNotVisible) {
  Call call = Small({3, 1, 9, 2, 8, 5, 7, 7, 6, 4}, 3);
  call.array("block_table").SetInt(1, -1);  // keys 4 to 7
  Expect(call, {2, 8, 9}, {3});
  call.Set("top", 7);
  Expect(call, {0, 1, 2, 3, 8, 9, -1}, {6});
}

TEST(LightningIndexer, PaddingTokensAndEmptySequencesHaveNone) {
  Call call = Small({3, 1, 9}, 2, 3);
  call.array("query_start_loc").SetInt(1, 1);
  Expect(call, {0, 2, -1, -1, -1, -1}, {2, 0, 0});
  call.array("seq_lens").SetInt(0, -2);
  Expect(call, {-1, -1, -1, -1, -1, -1}, {0, 0, 0});
}

TEST(LightningIndexer, ScalesCount) {
  Call call = Small({4, 5, 6, 7}, 1);
  call.Set("key_scale", Array(DType::kF32, {1, 4}, {1, 2, 0.5, 1}));
  Expect(call, {1}, {1});
  // Two heads, one for each key: the scale of the second decides.
  call = Small({1, -1}, 1).Set("query", Array(DType::kF32, {1, 2, 1}, {1, -1}));
  call.Set("weights", Array(DType::kF32, {1, 2}, {1}));
  Expect(call, {0}, {1});
  Expect(call.Set("query_scale", Array(DType::kF32, {1, 2}, {1, 3})), {1}, {1});
}

// Long enough for several pieces and for every path of the selection.
TEST(LightningIndexer, FindsTheHighestOfALongSequence) {
  const std::int64_t n = 5000;
  std::vector<double> keys(n);
  for (std::int64_t j = 0; j < n; ++j) keys[std::size_t(j)] = double(j * 37 % n);
  for (const std::int64_t top : {1, 10, 600, 4999}) {
    Call call = Small(keys, top);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      std::int64_t i = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        // The score 0 is the lowest, of key 0 alone: the values are a permutation.
        if (j * 37 % n < n - top) continue;
        EXPECT_EQ(results.at("indices").GetInt(i++), j) << kernel;
      }
      EXPECT_EQ(i, top);
    }
  }
}

TEST(LightningIndexer, RefusesWhatTheTableOrTheCacheLacks) {
  Call call = Small({3, 1, 9}, 2);
  call.array("seq_lens").SetInt(0, 5);
  EXPECT_EQ(call.Refusal(),
            "lightning_indexer: seq_lens[0] is 5, but must be at most 4 (1 columns of "
            "block_table, blocks of 4).");
  call.array("seq_lens").SetInt(0, 3);
  call.array("block_table").SetInt(0, 1);
  EXPECT_EQ(call.Refusal(),
            "lightning_indexer: block_table[0, 0] is 1, but must be less than 1 (the blocks of "
            "key_cache). Try -1 for a block that does not exist.");
}

TEST(LightningIndexer, RefusesMorePositionsThanIndicesHold) {
  const std::int64_t bs = std::int64_t{1} << 31;
  Call call = Small({3, 1, 9}, 2).Set("key_cache", Array(DType::kF32, {0, bs, 1}));
  Array lens(DType::kI64, {1}), starts(DType::kI64, {2}, {0, 1});
  lens.SetInt(0, bs);
  call.array("block_table").SetInt(0, -1);
  EXPECT_EQ(call.Set("seq_lens", lens).Set("query_start_loc", starts).Refusal(),
            "lightning_indexer: seq_lens[0] is 2147483648, but must be less than 2147483648, "
            "because indices are i32.");
}

}  // namespace
}  // namespace anyop::optest::lightning_indexer_test
