// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string_view>

#include "ops/common/latent/testing.h"

namespace anyop::optest::sparse_attention_test {
namespace {

// Indices of keys in the cache or the table, some -1, some beyond the sequence.
void MakeIndices(Call& call) {
  const bool is_physical = call.word("index") == "physical";
  if (!is_physical) MakeLatentTables(call);
  const std::int64_t most = call.size(is_physical ? "nb * bs" : "mb * bs") - 1;
  Array& indices = call.array("indices");
  for (std::int64_t i = 0; i < indices.size(); ++i) indices.SetInt(i, call.Draw(-1, most));
}

const OpTest kSparseAttention{
    .op = "sparse_attention",
    .tolerance =
        Tolerance([](const Call& call) { return LatentAllowed(call, call.value("n") + 1); }),
    .sizes = {"t = 1, b = 1, h = 16, c = 128, r = 64, bs = 64, mb = 3, nb = 4, n = 130",
              "t = 5, b = 2, h = 37, c = 40, r = 17, bs = 5, mb = 30, nb = 40, n = 64",
              "t = 3, b = 2, h = 3, c = 70, r = 0, bs = 1, mb = 90, nb = 50, n = 65",
              "t = 4, b = 2, h = 3, c = 7, r = 3, bs = 2, mb = 3, nb = 5, n = 0",
              "t = 2, b = 1, h = 2, c = 18, r = 8, bs = 16, mb = 20, nb = 12, n = 1500"},  // parts
    .ranges = {{"scale", {-0.5, 0.5}}},
    .prepare = MakeIndices,
};
TEST(SparseAttention, MatchesItsReference) { CheckAll(kSparseAttention); }

// indices of the only token, or of one token after another.
Call Small(std::int64_t keys, std::vector<std::int64_t> indices, std::int64_t tokens = 1) {
  Call call = SmallLatents("sparse_attention", keys, tokens);
  Array list(DType::kI32, {tokens, std::int64_t(indices.size()) / tokens});
  for (std::int64_t i = 0; i < list.size(); ++i) list.SetInt(i, indices[std::size_t(i)]);
  return call.Set("indices", list);
}

TEST(SparseAttention, ReadsTheListedKeysAndNoOthers) { ExpectMeans(Small(10, {7, 2}), {4.5}, {2}); }

TEST(SparseAttention, MinusOneAnywhereIsSkipped) {
  ExpectMeans(Small(10, {-1, 7, -1, -1, 2, -1}), {4.5}, {2});
  ExpectMeans(Small(10, {-1, -1}), {0}, {0});
}

TEST(SparseAttention, RepeatedIndicesCountAsOftenAsTheyOccur) {
  ExpectMeans(Small(10, {8, 2, 2}), {4}, {3});
}

TEST(SparseAttention, AppliesNoCausality) {
  ExpectMeans(Small(10, {9, 9, 0, 9}, 2), {9, 4.5}, {2, 2});
}

// Keys 10 to 15 hold NaN.
TEST(SparseAttention, LogicalIndicesBeyondTheLengthAreSkipped) {
  ExpectMeans(Small(10, {3, 10, 15, 5}), {4}, {2});
  ExpectMeans(Small(10, {3, 1000000, 5}), {4}, {2});
}

TEST(SparseAttention, MissingBlocksHideTheirPositions) {
  Call call = Small(10, {1, 5, 6, 9});
  call.array("block_table").SetInt(1, -1);  // keys 4 to 7
  ExpectMeans(call, {5}, {2});
}

TEST(SparseAttention, PhysicalIndicesAreSlotsAndUseNoTable) {
  Call call = Small(10, {13, -1, 15}).Set("index", "physical");  // block 3 holds keys 0 to 3
  ExpectMeans(call, {2}, {2});
  for (const char* name : {"block_table", "seq_lens", "query_start_loc"}) call.Remove(name);
  ExpectMeans(call, {2}, {2});
}

TEST(SparseAttention, PaddingTokensAreZeroAndHaveNoSink) {
  Call call = Small(10, {4, 5, 6}, 3).Set("sinks", Array(DType::kF32, {1}, {0}));
  call.array("query_start_loc").SetInt(1, 1);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.at("y"), Array(DType::kF32, {3, 1, 2}, {2, 0.5, 0, 0, 0, 0})) << kernel;
    EXPECT_NEAR(results.at("lse").Get(0), std::log(2), 1e-6) << kernel;
    EXPECT_EQ(results.at("lse").Get(1), -HUGE_VAL) << kernel;
  }
}

TEST(SparseAttention, ASinkAloneIsTheSum) {
  Call call = Small(10, {-1}).Set("sinks", Array(DType::kF32, {1}, {0.5}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.at("y"), Array(DType::kF32, {1, 1, 2}, {0})) << kernel;
    EXPECT_EQ(results.at("lse").Get(0), 0.5) << kernel;
  }
}

TEST(SparseAttention, AllPositionsInAnyOrderAreDenseAttention) {
  Call sparse("sparse_attention", 5), dense("mla_decode");
  const std::int64_t keys = 90;
  Array table(DType::kI32, {1, 6}), lens(DType::kI32, {1}, {double(keys)}), starts = lens;
  const auto random = [&](std::vector<std::int64_t> shape) {
    Array x(DType::kF32, shape);
    for (std::int64_t i = 0; i < x.size(); ++i) x.Set(i, double(sparse.Draw(-99, 99)) / 50);
    return x;
  };
  starts = Array(DType::kI32, {2}, {0, 1});
  for (std::int64_t i = 0; i < 6; ++i) table.SetInt(i, 5 - i);
  Array indices(DType::kI64, {1, keys});
  for (std::int64_t i = 0; i < keys; ++i) indices.SetInt(i, i * 7 % keys);
  const Array q = random({1, 6, 20}), p = random({1, 6, 4}), kv = random({6, 16, 20});
  const Array rope = random({6, 16, 4});
  for (Call* call : {&sparse, &dense}) {
    call->Set("q_nope", q).Set("q_rope", p).Set("kv_cache", kv).Set("rope_cache", rope);
    call->Set("block_table", table).Set("seq_lens", lens).Set("query_start_loc", starts);
    call->Set("scale", 0.3).Set("return_lse", true);
  }
  sparse.Set("indices", indices);
  const Results all = dense.Run();
  for (const auto& [kernel, results] : sparse.RunEveryKernel()) {
    for (const char* name : {"y", "lse"}) {
      for (std::int64_t i = 0; i < all.at(name).size(); ++i) {
        EXPECT_NEAR(results.at(name).Get(i), all.at(name).Get(i), 1e-5) << kernel << " " << name;
      }
    }
  }
}

TEST(SparseAttention, RefusesASlotBeyondTheCache) {
  EXPECT_EQ(Small(10, {3, 16}).Set("index", "physical").Refusal(),
            "sparse_attention: indices[0, 1] is 16, but must be less than 16 (4 blocks of "
            "kv_cache, blocks of 4). Try -1 for no key.");
}

TEST(SparseAttention, RefusesAPositionBeyondTheTable) {
  EXPECT_EQ(Small(20, {3, 15, 17}).Refusal(),
            "sparse_attention: indices[0, 2] is 17, but must be less than 16 (4 columns of "
            "block_table, blocks of 4). Try -1 for no key.");
}

TEST(SparseAttention, RefusesABlockBeyondTheCacheOnlyWhereItIsUsed) {
  Call call = Small(10, {1, 5});
  call.array("block_table").SetInt(2, 4);
  ExpectMeans(call, {3}, {2});
  call.array("block_table").SetInt(1, 4);
  EXPECT_EQ(call.Refusal(),
            "sparse_attention: block_table[0, 1] is 4, but must be less than 4 (the blocks of "
            "kv_cache). Try -1 for a block that does not exist.");
}

}  // namespace
}  // namespace anyop::optest::sparse_attention_test
