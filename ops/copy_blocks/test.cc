// SPDX-License-Identifier: Apache-2.0
#include "ops/common/blocks/testing.h"

namespace anyop::optest::copy_blocks_test {
namespace {

const OpTest kCopyBlocks{
    .op = "copy_blocks",
    .tolerance = Exact(),
    .sizes = {"nb = 12, w = 3072, n = 5"},
    .prepare =
        [](Call& call) {
          std::vector<Array>& caches = call.arrays("caches");
          const std::int64_t blocks = caches.empty() ? 0 : caches[0].dim(0);
          MakePairs(call, blocks, blocks, true);
        },
};
TEST(CopyBlocks, MatchesItsReference) { CheckAll(kCopyBlocks); }

Call TwoCaches(std::initializer_list<double> pairs) {
  Call call("copy_blocks");
  call.Set("caches", std::vector<Array>{Array(DType::kU8, {3, 2}, {1, 2, 3, 4, 5, 6}),
                                        Array(DType::kU8, {3, 2}, {7, 8, 9, 10, 11, 12})});
  call.Set("mapping", Array(DType::kI64, {std::int64_t(pairs.size()) / 2, 2}, pairs));
  return call;
}

TEST(CopyBlocks, CopiesInEveryCacheOfTheList) {
  Call call = TwoCaches({2, 0});
  call.Run();
  EXPECT_EQ(call.arrays("caches")[0], Array(DType::kU8, {3, 2}, {5, 6, 3, 4, 5, 6}));
  EXPECT_EQ(call.arrays("caches")[1], Array(DType::kU8, {3, 2}, {11, 12, 9, 10, 11, 12}));
}

TEST(CopyBlocks, SkipsPairsWithANegativeEntryWhateverTheOther) {
  Call call = TwoCaches({-1, 0, 1, -1, -1, 99, 99, -5, -1, -1});
  call.Run();
  EXPECT_EQ(call.arrays("caches")[0], Array(DType::kU8, {3, 2}, {1, 2, 3, 4, 5, 6}));
}

TEST(CopyBlocks, MayCopyABlockOntoItself) {
  Call call = TwoCaches({1, 1});
  call.Run();
  EXPECT_EQ(call.arrays("caches")[1], Array(DType::kU8, {3, 2}, {7, 8, 9, 10, 11, 12}));
}

TEST(CopyBlocks, RefusesABlockOutOfRangeAndNamesIt) {
  EXPECT_EQ(TwoCaches({0, 1, 3, 0}).Refusal(),
            "copy_blocks: mapping[1, 0] is 3, but must be less than 3 (blocks of every cache).");
  EXPECT_EQ(TwoCaches({0, 3}).Refusal(),
            "copy_blocks: mapping[0, 1] is 3, but must be less than 3 (blocks of every "
            "cache).");
}

TEST(CopyBlocks, RefusesCopiesWhoseOrderMattersInCheckMode) {
  const auto refusal = [](std::initializer_list<double> pairs) {
    EXPECT_NO_THROW(TwoCaches(pairs).Run());
    const Checking checking;
    return TwoCaches(pairs).Refusal();
  };
  EXPECT_EQ(refusal({0, 2, -1, 2, 1, 2}),
            "copy_blocks: mapping[2, 1] is 2, but must differ from mapping[0, 1], because either "
            "copy may come last.");
  EXPECT_EQ(refusal({0, 1, 1, 2}),
            "copy_blocks: mapping[1, 0] is 1, but must differ from mapping[0, 1], because either "
            "copy may come first.");
  EXPECT_EQ(refusal({1, 2, 0, 1}),
            "copy_blocks: mapping[0, 0] is 1, but must differ from mapping[1, 1], because either "
            "copy may come first.");
}

TEST(CopyBlocks, TakesPairsThatDoNothingTwiceInCheckMode) {
  const Checking checking;
  Call call = TwoCaches({1, 1, 2, 1, 1, 1, -1, 1, 1, -1, 2, 0});
  call.Run();
  EXPECT_EQ(call.arrays("caches")[0], Array(DType::kU8, {3, 2}, {5, 6, 5, 6, 5, 6}));
}

}  // namespace
}  // namespace anyop::optest::copy_blocks_test
