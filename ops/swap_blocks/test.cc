// SPDX-License-Identifier: Apache-2.0
#include "ops/common/blocks/testing.h"

namespace anyop::optest::swap_blocks_test {
namespace {

const OpTest kSwapBlocks{
    .op = "swap_blocks",
    .tolerance = Exact(),
    .sizes = {"ns = 4, nd = 9, w = 3072, n = 5"},
    .prepare = [](Call& call) { MakePairs(call, call.size("ns"), call.size("nd"), false); },
};
TEST(SwapBlocks, MatchesItsReference) { CheckAll(kSwapBlocks); }

Call TwoBlocks(std::initializer_list<double> pairs) {
  Call call("swap_blocks");
  call.Set("src", Array(DType::kF32, {2, 2}, {1, 2, 3, 4}));
  call.Set("dst", Array(DType::kF32, {3, 2}, {5, 6, 7, 8, 9, 10}));
  call.Set("mapping", Array(DType::kI32, {std::int64_t(pairs.size()) / 2, 2}, pairs));
  return call;
}

TEST(SwapBlocks, CopiesFromSrcIntoDstAndLeavesSrc) {
  Call call = TwoBlocks({1, 0, 0, 2});
  EXPECT_EQ(call.Run()["dst"], Array(DType::kF32, {3, 2}, {3, 4, 7, 8, 1, 2}));
  EXPECT_EQ(call.array("src"), Array(DType::kF32, {2, 2}, {1, 2, 3, 4}));
}

TEST(SwapBlocks, SkipsPairsWithANegativeEntryWhateverTheOther) {
  Call call = TwoBlocks({-1, 0, 1, -1, 99, -1, -1, 99});
  EXPECT_EQ(call.Run()["dst"], Array(DType::kF32, {3, 2}, {5, 6, 7, 8, 9, 10}));
}

TEST(SwapBlocks, RefusesABlockOutOfTheRangeOfItsOwnSide) {
  EXPECT_EQ(TwoBlocks({0, 2, 2, 0}).Refusal(),
            "swap_blocks: mapping[1, 0] is 2, but must be less than 2 (blocks of src).");
  EXPECT_EQ(TwoBlocks({0, 3}).Refusal(),
            "swap_blocks: mapping[0, 1] is 3, but must be less than 3 (blocks of dst).");
}

TEST(SwapBlocks, RefusesTwoCopiesIntoOneBlockInCheckMode) {
  EXPECT_NO_THROW(TwoBlocks({0, 2, 1, 2}).Run());
  const Checking checking;
  EXPECT_EQ(TwoBlocks({0, 2, -1, 2, 1, 2}).Refusal(),
            "swap_blocks: mapping[2, 1] is 2, but must differ from mapping[0, 1], because either "
            "copy may come last.");
  EXPECT_EQ(TwoBlocks({0, 1, 1, 0, 1, 2}).Run()["dst"],
            Array(DType::kF32, {3, 2}, {3, 4, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace anyop::optest::swap_blocks_test
