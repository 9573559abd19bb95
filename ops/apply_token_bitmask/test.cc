// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>

namespace anyop::optest::apply_token_bitmask_test {
namespace {

const OpTest kApplyTokenBitmask{
    .op = "apply_token_bitmask",
    .tolerance = Exact(),
    .sizes = {"n = 3, v = 1000, m = 3, w = 32", "n = 2, v = 64, m = 2, w = 3",
              "n = 4, v = 33, m = 4, w = 2"},
    .prepare =
        [](Call& call) {
          Array& mask = call.array("bitmask");
          for (std::int64_t i = 0; i < mask.size(); ++i) {
            const std::int64_t kind = call.Draw(0, 3);
            mask.SetInt(i, kind == 0 ? 0 : kind == 1 ? -1 : call.Draw(INT32_MIN, INT32_MAX));
          }
        },
};
TEST(ApplyTokenBitmask, MatchesItsReference) { CheckAll(kApplyTokenBitmask); }

TEST(ApplyTokenBitmask, ReadsTheLowestBitFirst) {
  Call call("apply_token_bitmask");
  Array logits(DType::kF16, {1, 35}, {1}), expected(DType::kF16, {1, 35}, {-HUGE_VAL});
  expected.Set(0, 1);
  expected.Set(31, 1);
  expected.Set(33, 1);
  Array mask(DType::kI32, {1, 2});
  mask.SetInt(0, INT32_MIN + 1);
  mask.SetInt(1, 2 + 64);  // bit 6 is beyond the vocabulary
  call.Set("logits", logits).Set("bitmask", mask);
  EXPECT_EQ(call.Run()["logits"], expected);
}

TEST(ApplyTokenBitmask, AppliesBothMasksOfARowAndSkipsMinusOne) {
  Call call("apply_token_bitmask");
  call.Set("logits", Array(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6}));
  call.Set("bitmask", Array(DType::kI32, {3, 1}, {3, 0, 6}));
  call.Set("rows", Array(DType::kI64, {3}, {1, -1, 1}));
  EXPECT_EQ(call.Run()["logits"], Array(DType::kF32, {2, 3}, {1, 2, 3, -HUGE_VAL, 5, -HUGE_VAL}));
}

TEST(ApplyTokenBitmask, RefusesARowBeyondTheLogits) {
  Call call("apply_token_bitmask");
  call.Set("logits", Array(DType::kF32, {2, 3}, {0}));
  call.Set("bitmask", Array(DType::kI32, {1, 1}, {0}));
  call.Set("rows", Array(DType::kI32, {1}, {2}));
  const std::string text = call.Refusal();
  EXPECT_EQ(text.rfind("apply_token_bitmask: rows[0] is 2, but must be less than 2", 0), 0u)
      << text;
}

}  // namespace
}  // namespace anyop::optest::apply_token_bitmask_test
