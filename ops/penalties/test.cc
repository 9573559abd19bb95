// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>

namespace anyop::optest {
namespace {

void MakeTokens(Call& call) {
  const std::int64_t v = call.size("v");
  for (const char* name : {"prompt_tokens", "output_tokens"}) {
    Array& tokens = call.array(name);
    for (std::int64_t i = 0; i < tokens.size(); ++i) tokens.SetInt(i, call.Draw(-2, v));
  }
}

const OpTest kPenalties{
    .op = "penalties",
    .tolerance = Exact(),
    .row_invariant = true,
    .row_variable = "b",
    .sizes = {"b = 3, v = 5000, p = 64, o = 40", "b = 2, v = 3, p = 20, o = 20"},
    .ranges = {{"repetition", {0.5, 2}}},
    .prepare = MakeTokens,
};
TEST(Penalties, MatchesItsReference) { CheckAll(kPenalties); }

// Tokens: 0 unseen, 1 in the prompt, 2 once and 3 twice in the output, 4 in both.
Call FiveTokens(std::initializer_list<double> logits, double repetition, double frequency,
                double presence) {
  Call call("penalties");
  call.Set("logits", Array(DType::kF32, {1, 5}, logits));
  call.Set("prompt_tokens", Array(DType::kI64, {1, 4}, {1, 4, 5, -1}));
  call.Set("output_tokens", Array(DType::kI64, {1, 5}, {3, 2, 4, 3, 5}));
  call.Set("repetition", Array(DType::kF32, {1}, {repetition}));
  call.Set("frequency", Array(DType::kF32, {1}, {frequency}));
  call.Set("presence", Array(DType::kF32, {1}, {presence}));
  return call;
}

TEST(Penalties, AppliesTheThreeInOrder) {
  Call call = FiveTokens({8, 8, 8, -8, 0}, 2, 0.5, 0.25);
  EXPECT_EQ(call.Run()["logits"], Array(DType::kF32, {1, 5}, {8, 4, 4 - 0.75, -16 - 1.25, -0.75}));
}

TEST(Penalties, LeavesEveryBitOfANeutralRow) {
  Call call = FiveTokens({-0.0, NAN, 3, 4, 5}, 1, 0, 0);
  const Array before = call.array("logits");
  EXPECT_EQ(call.Run()["logits"], before);
}

TEST(Penalties, KeepsMinusInfinity) {
  Call call = FiveTokens({-HUGE_VAL, -HUGE_VAL, -HUGE_VAL, -HUGE_VAL, 1}, 2, -3, 1);
  EXPECT_EQ(call.Run()["logits"],
            Array(DType::kF32, {1, 5}, {-HUGE_VAL, -HUGE_VAL, -HUGE_VAL, -HUGE_VAL, 2.5}));
}

TEST(Penalties, RoundsEachStep) {
  Call call = FiveTokens({0, 0, 0, 1, 0}, 3, 0.1, 0);
  const float third = 1.0f / 3.0f, used = 0.1f * 2.0f;
  EXPECT_EQ(call.Run()["logits"].Get(3), double(third - used));
}

TEST(Penalties, RefusesATokenBeyondThePaddingValue) {
  Call call = FiveTokens({1, 2, 3, 4, 5}, 2, 0, 0);
  call.Set("output_tokens", Array(DType::kI64, {1, 2}, {5, 6}));
  EXPECT_EQ(call.Refusal(),
            "penalties: output_tokens[0, 1] is 6, but must be at most 5, the vocabulary size, "
            "which stands for padding.");
  EXPECT_EQ(call.array("logits"), Array(DType::kF32, {1, 5}, {1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace anyop::optest
