// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

namespace anyop::optest::advance_step_test {
namespace {

// Lengths that the table holds, or none; blocks, some of them none.
void MakeTable(Call& call) {
  const std::int64_t longest = call.size("mb * block_size") - 1;
  Array& lengths = call.array("seq_lens");
  for (std::int64_t i = 0; i < lengths.size(); ++i) lengths.SetInt(i, call.Draw(-1, longest));
  Array& table = call.array("block_tables");
  for (std::int64_t i = 0; i < table.size(); ++i)
    table.SetInt(i, call.Draw(0, 4) ? call.Draw(0, 1000) : -call.Draw(1, 3));
}

const OpTest kAdvanceStep{
    .op = "advance_step",
    .tolerance = Exact(),
    .sizes = {"n = 16, m = 16, mb = 128, block_size = 16", "n = 64, m = 70, mb = 9"},
    .values = {{"block_size", {1, 16, 7}}},
    .prepare = MakeTable,
};
TEST(AdvanceStep, MatchesItsReference) { CheckAll(kAdvanceStep); }

// Rows of length 3, 4 (the first of a new block), none, and 0; blocks of 4.
Call FourRows(DType slots = DType::kI64) {
  Call call("advance_step");
  call.Set("input_tokens", Array(DType::kI64, {4}, {90, 91, 92, 93}));
  call.Set("sampled_token_ids", Array(DType::kI64, {4}, {50, -1, 52, 53}));
  call.Set("input_positions", Array(DType::kI64, {4}, {9}));
  call.Set("seq_lens", Array(DType::kI32, {4}, {3, 4, -1, 0}));
  call.Set("slot_mapping", Array(slots, {4}, {77}));
  call.Set("block_tables", Array(DType::kI32, {4, 2}, {5, 6, 7, 8, 9, 10, -1, 3}));
  call.Set("block_size", 4);
  return call;
}

TEST(AdvanceStep, MovesEveryRowOn) {
  Call call = FourRows();
  Results results = call.Run();
  EXPECT_EQ(results["input_tokens"], Array(DType::kI64, {4}, {50, -1, 0, 53}));
  EXPECT_EQ(results["input_positions"], Array(DType::kI64, {4}, {3, 4, 0, 0}));
  EXPECT_EQ(results["seq_lens"], Array(DType::kI32, {4}, {4, 5, -1, 1}));
  EXPECT_EQ(results["slot_mapping"], Array(DType::kI64, {4}, {23, 32, -1, -1}));
}

TEST(AdvanceStep, TreatsRowsBeyondTheQueriesAsPadding) {
  Call call = FourRows();
  call.Set("num_queries", 1);
  Results results = call.Run();
  EXPECT_EQ(results["input_tokens"], Array(DType::kI64, {4}, {50, 0, 0, 0}));
  EXPECT_EQ(results["input_positions"], Array(DType::kI64, {4}, {3, 0, 0, 0}));
  EXPECT_EQ(results["seq_lens"], Array(DType::kI32, {4}, {4, 4, -1, 0}));
  EXPECT_EQ(results["slot_mapping"], Array(DType::kI64, {4}, {23, -1, -1, -1}));
}

TEST(AdvanceStep, RefusesAPositionBeyondTheTableAndWritesNothing) {
  Call call = FourRows();
  call.Set("seq_lens", Array(DType::kI32, {4}, {3, 8, 0, 0}));
  EXPECT_EQ(call.Refusal(),
            "advance_step: seq_lens[1] is 8, but must be less than 8 (2 blocks of 4, the width of "
            "block_tables).");
  EXPECT_EQ(call.array("input_tokens"), Array(DType::kI64, {4}, {90, 91, 92, 93}));
}

TEST(AdvanceStep, LooksOnlyAtRowsInUse) {
  Call call = FourRows();
  call.Set("seq_lens", Array(DType::kI32, {4}, {3, 8, 99, 0})).Set("num_queries", 1);
  EXPECT_EQ(call.Run()["slot_mapping"], Array(DType::kI64, {4}, {23, -1, -1, -1}));
}

TEST(AdvanceStep, RefusesASlotThatDoesNotFitItsDtype) {
  Call call = FourRows(DType::kI32);
  Array blocks(DType::kI64, {4, 2}, {5});
  blocks.SetInt(0, (std::int64_t{1} << 29) - 1);  // its last slot is 2^31 - 1
  call.Set("block_tables", blocks).Set("seq_lens", Array(DType::kI32, {4}, {3, 0, 0, 0}));
  call.Set("slot_mapping", Array(DType::kI32, {4}, {77}));
  EXPECT_NE(call.RunEveryKernel().size(), 0u);
  blocks.SetInt(0, std::int64_t{1} << 29);
  call.Set("block_tables", blocks).Set("seq_lens", Array(DType::kI32, {4}, {3, 0, 0, 0}));
  EXPECT_EQ(call.Refusal(),
            "advance_step: slot_mapping[0] would not fit i32, because a block in row 0 of "
            "block_tables is too large.");
}

TEST(AdvanceStep, RefusesASlotThatIsTooLargeByItsOffset) {
  // The first slot of the block is 2^31 - 3: offsets 0 to 2 fit, 3 does not.
  Call call = FourRows(DType::kI32);
  Array blocks(DType::kI64, {4, 2}, {429496729});
  call.Set("block_tables", blocks).Set("block_size", 5);
  call.Set("seq_lens", Array(DType::kI32, {4}, {2, 0, 0, 0}));
  EXPECT_EQ(call.Run()["slot_mapping"].GetInt(0), INT32_MAX);
  call.Set("seq_lens", Array(DType::kI32, {4}, {3, 0, 0, 0}));
  EXPECT_NE(call.Refusal().find("slot_mapping[0] would not fit i32"), std::string::npos);
}

TEST(AdvanceStep, RefusesALengthThatItsDtypeCannotHold) {
  Call call = FourRows();
  call.Set("block_size", Argument(std::int64_t{1} << 40));
  call.Set("seq_lens", Array(DType::kI32, {4}, {INT32_MAX - 1, 0, 0, 0}));
  EXPECT_EQ(call.Run()["seq_lens"].GetInt(0), INT32_MAX);
  EXPECT_EQ(call.Refusal(),
            "advance_step: seq_lens[0] is 2147483647, but must be at most 2147483646, because "
            "input_positions and seq_lens hold no more.");
}

}  // namespace
}  // namespace anyop::optest::advance_step_test
