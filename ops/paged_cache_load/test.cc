// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <algorithm>

namespace anyop::optest::paged_cache_load_test {
namespace {

// Lengths and starts that the table and y hold, blocks that exist or are none.
void Place(Call& call) {
  const bool nz = call.word("layout") == "NZ";
  const Array& cache = call.array("cache");
  Array &table = call.array("block_table"), &lens = call.array("seq_lens");
  std::int64_t left = call.integer("capacity");
  const std::int64_t room = table.dim(1) * cache.dim(nz ? 2 : 1);
  for (std::int64_t i = 0; i < lens.size(); ++i) {
    const std::int64_t start = call.given("starts") ? call.Draw(0, room) : 0;
    if (call.given("starts")) call.array("starts").SetInt(i, start);
    lens.SetInt(i, call.Draw(-1, std::min(left, room - start)));
    left -= std::max<std::int64_t>(0, lens.GetInt(i));
  }
  for (std::int64_t i = 0; i < table.size(); ++i) table.SetInt(i, call.Draw(-1, cache.dim(0) - 1));
}

const OpTest kPagedCacheLoad{
    .op = "paged_cache_load",
    .sizes = {"nb = 7, bs = 16, w = 576, b = 3, mb = 4, capacity = 90",
              "nb = 7, wc = 8, bs = 16, c0 = 16, b = 3, mb = 4, capacity = 90"},
    .values = {{"capacity", {0, 1, 9, 40}}},
    .prepare = Place,
};
TEST(PagedCacheLoad, MatchesItsReference) { CheckAll(kPagedCacheLoad); }

// Three blocks of two rows, 10 * block + row in each; a table of two columns.
Call TwoSequences(std::initializer_list<double> lens, int capacity = 6) {
  Call call("paged_cache_load");
  call.Set("cache", Array(DType::kI8, {3, 2, 1}, {0, 1, 10, 11, 20, 21}));
  call.Set("block_table", Array(DType::kI32, {2, 2}, {2, 0, 1, -1}));
  return call.Set("seq_lens", Array(DType::kI64, {2}, lens)).Set("capacity", capacity);
}
void Expect(Call call, std::initializer_list<double> y, double count) {
  Results r = call.Run();
  EXPECT_EQ(r["y"], Array(DType::kI8, {6, 1}, y));
  EXPECT_EQ(r["count"], Array(DType::kI64, {1}, {count}));
}

TEST(PagedCacheLoad, PacksTheRowsOfEachSequenceAndClearsTheRest) {
  Expect(TwoSequences({3, 2}), {20, 21, 0, 10, 11, 0}, 5);
  Expect(TwoSequences({-3, 2}), {10, 11, 0, 0, 0, 0}, 2);
}

TEST(PagedCacheLoad, BeginsWithinABlock) {
  Call call = TwoSequences({3, 1});
  Expect(call.Set("starts", Array(DType::kI64, {2}, {1, 1})), {21, 0, 1, 11, 0, 0}, 4);
}

TEST(PagedCacheLoad, GivesZerosForABlockThatDoesNotExist) {
  Expect(TwoSequences({1, 4}), {20, 10, 11, 0, 0, 0}, 5);
}

TEST(PagedCacheLoad, FindsThePiecesOfARowInLayoutNz) {
  Call call("paged_cache_load");
  call.Set("cache", Array(DType::kU8, {1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7})).Set("layout", "NZ");
  call.Set("block_table", Array(DType::kI32, {1, 1}, {0}));
  call.Set("seq_lens", Array(DType::kI32, {1}, {2})).Set("capacity", 2);
  EXPECT_EQ(call.Run()["y"], Array(DType::kU8, {2, 4}, {0, 1, 4, 5, 2, 3, 6, 7}));
}

TEST(PagedCacheLoad, RefusesMoreRowsThanTheCapacity) {
  EXPECT_EQ(TwoSequences({3, 2}, 4).Refusal(),
            "paged_cache_load: seq_lens[1] is 2, but must be at most 1, because capacity is 4 and "
            "earlier sequences have 3 rows. Try a larger capacity.");
}

TEST(PagedCacheLoad, RefusesRowsBeyondTheTable) {
  EXPECT_EQ(TwoSequences({5, 0}).Refusal(),
            "paged_cache_load: seq_lens[0] is 5 and begins at 0, but must end at 4 (2 columns of "
            "block_table, blocks of 2) or before.");
  Call call = TwoSequences({1, 1});
  EXPECT_EQ(call.Set("starts", Array(DType::kI64, {2}, {3, 4})).Refusal(),
            "paged_cache_load: seq_lens[1] is 1 and begins at 4, but must end at 4 (2 columns of "
            "block_table, blocks of 2) or before.");
  EXPECT_EQ(call.Set("starts", Array(DType::kI64, {2}, {3, -1})).Refusal(),
            "paged_cache_load: starts[1] is -1, but must be at least 0.");
}

TEST(PagedCacheLoad, RefusesABlockThatIsNotThereOnlyWhereItIsUsed) {
  Call call = TwoSequences({2, 2});
  call.Set("block_table", Array(DType::kI32, {2, 2}, {2, 3, 1, 9}));
  EXPECT_EQ(call.Run()["y"], Array(DType::kI8, {6, 1}, {20, 21, 10, 11, 0, 0}));
  EXPECT_EQ(call.Set("seq_lens", Array(DType::kI64, {2}, {3, 2})).Refusal(),
            "paged_cache_load: block_table[0, 1] is 3, but must be less than 3 (the blocks of "
            "cache). Try -1 for a block that does not exist.");
}

}  // namespace
}  // namespace anyop::optest::paged_cache_load_test
