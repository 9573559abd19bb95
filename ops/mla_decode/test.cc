// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/common/latent/testing.h"

namespace anyop::optest::mla_decode_test {
namespace {

const OpTest kMlaDecode{
    .op = "mla_decode",
    .tolerance =
        Tolerance([](const Call& call) { return LatentAllowed(call, call.value("mb * bs") + 1); }),
    .sizes = {"t = 1, b = 1, h = 16, c = 128, r = 64, bs = 64, mb = 3, nb = 4",
              "t = 5, b = 2, h = 37, c = 40, r = 17, bs = 5, mb = 30, nb = 40",
              "t = 3, b = 3, h = 3, c = 70, r = 0, bs = 1, mb = 90, nb = 50",
              "t = 9, b = 4, h = 70, c = 1, r = 33, bs = 16, mb = 9, nb = 20",
              "t = 2, b = 2, h = 5, c = 0, r = 8, bs = 4, mb = 3, nb = 9"},
    .ranges = {{"scale", {-0.5, 0.5}}},
    .prepare = MakeLatentTables,
};
TEST(MlaDecode, MatchesItsReference) { CheckAll(kMlaDecode); }

// Long enough for several parts, which threads share.
const OpTest kLongMlaDecode{
    .op = "mla_decode",
    .tolerance = kMlaDecode.tolerance,
    .sizes = {"t = 1, b = 1, h = 8, c = 6, r = 4, bs = 64, mb = 20, nb = 20"},
    .ranges = kMlaDecode.ranges,
    .prepare =
        [](Call& call) {
          MakeLatentTables(call);
          Array& lens = call.array("seq_lens");
          if (lens.size()) lens.SetInt(0, call.size("mb * bs"));
        },
};
TEST(MlaDecode, MatchesItsReferenceOnLongSequences) {
  CheckValues(kLongMlaDecode);
  CheckThreadInvariance(kLongMlaDecode);
}

TEST(MlaDecode, KeepsItsPromiseOnEveryMachine) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const std::int64_t keys : {1, 7, 130, 1000}) {
      const std::int64_t bs = keys % 2 ? 16 : 128, blocks = (keys + bs - 1) / bs, c = 512, r = 64;
      Call call("mla_decode", std::uint64_t(keys));
      Array q(dtype, {1, 8, c}), p(dtype, {1, 8, r}), kv(dtype, {blocks, bs, c});
      Array rope(dtype, {blocks, bs, r}), table(DType::kI32, {1, blocks});
      for (Array* x : {&q, &p, &kv, &rope}) FillNormal(call, *x);
      for (std::int64_t i = 0; i < blocks; ++i) table.SetInt(i, blocks - 1 - i);
      call.Set("q_nope", q).Set("q_rope", p).Set("kv_cache", kv).Set("rope_cache", rope);
      call.Set("block_table", table).Set("scale", 1 / std::sqrt(192.0));
      call.Set("seq_lens", Array(DType::kI32, {1}, {double(keys)}));
      ExpectPromised(call, dtype);
    }
  }
}

TEST(MlaDecode, LastQuerySeesTheLastKeyAndNaNBeyondItIsNotRead) {
  ExpectMeans(SmallLatents("mla_decode", 10, 3), {3.5, 4, 4.5}, {8, 9, 10});
  ExpectMeans(SmallLatents("mla_decode", 10, 3).Set("causal", false), {4.5, 4.5, 4.5},
              {10, 10, 10});
}

TEST(MlaDecode, EarlyQueriesOfAShortSequenceSeeNothing) {
  ExpectMeans(SmallLatents("mla_decode", 2, 4), {0, 0, 0, 0.5}, {0, 0, 1, 2});
  ExpectMeans(SmallLatents("mla_decode", -3, 1), {0}, {0});
}

TEST(MlaDecode, MissingBlocksAreNotVisible) {
  Call call = SmallLatents("mla_decode", 10, 1);
  call.array("block_table").SetInt(1, -1);  // keys 4 to 7
  ExpectMeans(call, {(0 + 1 + 2 + 3 + 8 + 9) / 6.0}, {6});
}

TEST(MlaDecode, PaddingTokensAreZero) {
  Call call = SmallLatents("mla_decode", 3, 3);
  call.array("query_start_loc").SetInt(1, 1);
  ExpectMeans(call, {1, 0, 0}, {3, 0, 0});
}

TEST(MlaDecode, WithoutStartsEverySequenceHasOneQuery) {
  Call call = SmallLatents("mla_decode", 7, 1).Remove("query_start_loc");
  ExpectMeans(call, {3}, {7});
}

TEST(MlaDecode, MinusInfinityEverywhereIsNoKey) {
  Call call = SmallLatents("mla_decode", 10, 2);
  call.Set("q_rope", Array(DType::kF32, {2, 1, 1}, {1}));
  Array& rope = call.array("rope_cache");
  for (std::int64_t i = 0; i < rope.size(); ++i) rope.Set(i, -HUGE_VAL);
  ExpectMeans(call, {0, 0}, {0, 0});
}

TEST(MlaDecode, NaNReachesTheQueriesThatSeeItAndNoOthers) {
  Call call = SmallLatents("mla_decode", 10, 3);
  call.array("rope_cache").Set({1, 0, 0}, std::nan(""));  // key 8, which queries 1 and 2 see
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& y = results.at("y");
    EXPECT_NEAR(y.Get(0), 3.5, 1e-5) << kernel;
    for (std::int64_t i = 2; i < 6; ++i) EXPECT_TRUE(std::isnan(y.Get(i))) << kernel << " " << i;
  }
}

// 100 keys of one tile after another, the largest score in the last: earlier sums shrink.
TEST(MlaDecode, SumsAreRelativeToTheLargestScore) {
  const std::int64_t keys = 150;
  Call call("mla_decode");
  Array kv(DType::kF32, {keys, 1, 1}), rope(DType::kF32, {keys, 1, 1}),
      table(DType::kI64, {1, keys});
  for (std::int64_t j = 0; j < keys; ++j) {
    kv.Set(j, double(j));
    rope.Set(j, 300.0 * double(j));
    table.SetInt(j, j);
  }
  call.Set("q_nope", Array(DType::kF32, {1, 1, 1}))
      .Set("q_rope", Array(DType::kF32, {1, 1, 1}, {1}));
  call.Set("kv_cache", kv).Set("rope_cache", rope).Set("block_table", table).Set("scale", 1.0);
  call.Set("seq_lens", Array(DType::kI64, {1}, {double(keys)})).Set("return_lse", true);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.at("y").Get(0), double(keys - 1)) << kernel;
    EXPECT_EQ(results.at("lse").Get(0), 300.0 * double(keys - 1)) << kernel;
  }
}

// Sizes of many items and of one: a token has its bits with any number of heads beside it.
TEST(MlaDecode, ATokenAloneHasTheBitsOfTheBatch) {
  Call batch("mla_decode", 3);
  const auto random = [&](std::vector<std::int64_t> shape) {
    Array x(DType::kBF16, shape);
    for (std::int64_t i = 0; i < x.size(); ++i) x.Set(i, double(batch.Draw(-99, 99)) / 50);
    return x;
  };
  const Array q = random({3, 9, 24}), p = random({3, 9, 8});
  Array lens(DType::kI32, {3}, {100}), table(DType::kI32, {3, 7});
  for (std::int64_t i = 0; i < 21; ++i) table.SetInt(i, i % 7);
  batch.Set("q_nope", q).Set("q_rope", p).Set("kv_cache", random({7, 16, 24})).Set("scale", 0.2);
  batch.Set("rope_cache", random({7, 16, 8})).Set("block_table", table).Set("seq_lens", lens);
  Call alone = batch;
  Array q1(DType::kBF16, {1, 5, 24}), p1(DType::kBF16, {1, 5, 8});
  for (std::int64_t i = 0; i < q1.size(); ++i) q1.Set(i, q.Get((9 + 4) * 24 + i));
  for (std::int64_t i = 0; i < p1.size(); ++i) p1.Set(i, p.Get((9 + 4) * 8 + i));
  Array table1(DType::kI32, {1, 7});
  for (std::int64_t i = 0; i < 7; ++i) table1.SetInt(i, i);
  alone.Set("q_nope", q1).Set("q_rope", p1).Set("block_table", table1);
  alone.Set("seq_lens", Array(DType::kI32, {1}, {100}));
  const auto together = batch.RunEveryKernel();
  for (const auto& [kernel, results] : alone.RunEveryKernel()) {
    const Array &y = results.at("y"), &all = together.at(kernel).at("y");
    for (std::int64_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y.Get(i), all.Get((9 + 4) * 24 + i)) << kernel << " " << i;
    }
  }
}

TEST(MlaDecode, RefusesALengthBeyondTheTable) {
  EXPECT_EQ(SmallLatents("mla_decode", 17, 1).Refusal(),
            "mla_decode: seq_lens[0] is 17, but must be at most 16 (4 columns of block_table, "
            "blocks of 4).");
}

TEST(MlaDecode, RefusesABlockBeyondTheCacheOnlyWhereKeysAreUsed) {
  Call call = SmallLatents("mla_decode", 10, 1);
  call.array("block_table").SetInt(3, 9);  // keys 12 to 15
  ExpectMeans(call, {4.5}, {10});
  call.array("block_table").SetInt(2, 4);
  EXPECT_EQ(call.Refusal(),
            "mla_decode: block_table[0, 2] is 4, but must be less than 4 (the blocks of kv_cache). "
            "Try -1 for a block that does not exist.");
}

}  // namespace
}  // namespace anyop::optest::mla_decode_test
