// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

namespace anyop::optest::compute_slot_mapping_test {
namespace {

// Positions that the table holds, or none: runs that rise by one, and jumps.
void MakePositions(Call& call) {
  const std::int64_t longest = call.size("mb * block_size") - 1;
  Array& positions = call.array("positions");
  std::int64_t pos = -1;
  for (std::int64_t i = 0; i < positions.size(); ++i) {
    pos = pos < longest && call.Draw(0, 5) ? pos + 1 : call.Draw(-1, longest);
    positions.SetInt(i, pos);
  }
  Array& table = call.array("block_table");
  for (std::int64_t i = 0; i < table.size(); ++i)
    table.SetInt(i, call.Draw(0, 4) ? call.Draw(0, 1000) : -call.Draw(1, 3));
}

const OpTest kComputeSlotMapping{
    .op = "compute_slot_mapping",
    .tolerance = Exact(),
    .sizes = {"b = 4, t = 200, mb = 16, block_size = 16", "b = 1, t = 1, mb = 3"},
    .values = {{"block_size", {1, 16, 5}}},
    .prepare = MakePositions,
};
TEST(ComputeSlotMapping, MatchesItsReference) { CheckAll(kComputeSlotMapping); }

// Sequences of 3, 0 and 2 tokens and one token beyond; blocks of 2.
Call ThreeSequences(std::initializer_list<double> positions) {
  Call call("compute_slot_mapping");
  call.Set("query_start_loc", Array(DType::kI32, {4}, {0, 3, 3, 5}));
  call.Set("positions", Array(DType::kI64, {6}, positions));
  call.Set("block_table", Array(DType::kI32, {3, 2}, {10, 20, 30, 40, -1, 60}));
  call.Set("block_size", 2);
  return call;
}

TEST(ComputeSlotMapping, FollowsTheBlockTableOfEachSequence) {
  Call call = ThreeSequences({1, 2, 3, 3, 2, 0});
  EXPECT_EQ(call.Run()["slot_mapping"], Array(DType::kI64, {6}, {21, 40, 41, 121, 120, -1}));
}

TEST(ComputeSlotMapping, GivesNoneForNoPositionNoBlockAndTokensBeyond) {
  Call call = ThreeSequences({-1, 0, -5, 0, 2, 3});
  EXPECT_EQ(call.Run()["slot_mapping"], Array(DType::kI64, {6}, {-1, 20, -1, -1, 120, -1}));
}

TEST(ComputeSlotMapping, ComputesIn64Bits) {
  Call call = ThreeSequences({0, 1, 2, 3, 3, 0});
  Array blocks(DType::kI64, {3, 2}, {1});
  blocks.SetInt(0, std::int64_t{1} << 40);
  call.Set("block_table", blocks);
  EXPECT_EQ(call.Run()["slot_mapping"].GetInt(1), (std::int64_t{1} << 41) + 1);
}

TEST(ComputeSlotMapping, RefusesAPositionBeyondTheTable) {
  EXPECT_EQ(ThreeSequences({0, 1, 2, 4, 0, 0}).Refusal(),
            "compute_slot_mapping: positions[3] is 4, but must be less than 4 (2 blocks of 2, the "
            "width of block_table).");
}

TEST(ComputeSlotMapping, DoesNotLookAtPositionsBeyondTheSequences) {
  Call call = ThreeSequences({0, 1, 2, 3, 0, 99});
  EXPECT_EQ(call.Run()["slot_mapping"].GetInt(5), -1);
}

TEST(ComputeSlotMapping, RefusesASlotBeyond64Bits) {
  Call call = ThreeSequences({0, 1, 2, 3, 3, 0});
  Array blocks(DType::kI64, {3, 2}, {1});
  blocks.SetInt(1, std::int64_t{1} << 62);
  call.Set("block_table", blocks);
  EXPECT_EQ(call.Refusal(),
            "compute_slot_mapping: slot_mapping[2] would not fit i64, because a block in row 0 "
            "of block_table is too large.");
}

}  // namespace
}  // namespace anyop::optest::compute_slot_mapping_test
