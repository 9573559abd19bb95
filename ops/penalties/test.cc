// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>

namespace anyop::optest::penalties_test {
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

// Every step rounded to f32: where that differs from one rounding of two steps together, from a
// multiplication by 1 / repetition, and from one subtraction of both penalties.
TEST(Penalties, RoundsEachStep) {
  bool fused_differs = false, reciprocal_differs = false, sum_differs = false;
  for (int i = 1; i < 40; ++i) {
    const float l = float(i) / 7, repetition = 3, frequency = 0.1f, presence = float(i) / 11;
    Call call = FiveTokens({0, 0, 0, l, 0}, repetition, frequency, presence);
    call.Set("output_tokens", Array(DType::kI64, {1, 3}, {3, 3, 3}));
    const volatile float part = l / repetition, used = frequency * 3, left = part - used;
    EXPECT_EQ(call.Run()["logits"].Get(3), double(float(left - presence))) << i;
    fused_differs |= std::fma(-frequency, 3.0f, float(part)) != left;
    reciprocal_differs |= l * float(1 / repetition) != part;
    sum_differs |= float(left - presence) != float(part - float(used + presence));
  }
  EXPECT_TRUE(fused_differs && reciprocal_differs && sum_differs);
}

TEST(Penalties, RefusesARepetitionThatIsNotAboveZeroInCheckMode) {
  for (const double repetition : {0.0, -2.5, double(NAN)}) {
    Call call = FiveTokens({1, 2, 3, 4, 5}, repetition, 0, 0);
    const std::string shown = std::isnan(repetition) ? "nan" : repetition < 0 ? "-2.5" : "0";
    EXPECT_NO_THROW(call.Run());
    const Checking checking;
    EXPECT_EQ(call.Refusal(), "penalties: repetition[0] is " + shown +
                                  ", but must be above 0, because logits are divided by it.");
  }
  const Checking checking;
  Call call = FiveTokens({1, 2, 3, 4, 5}, 0.5, 0, 0);
  EXPECT_EQ(call.Run()["logits"], Array(DType::kF32, {1, 5}, {1, 4, 6, 8, 10}));
}

TEST(Penalties, RefusesATokenBeyondThePaddingValue) {
  Call call = FiveTokens({1, 2, 3, 4, 5}, 2, 0, 0);
  call.Set("output_tokens", Array(DType::kI64, {1, 2}, {5, 6}));
  EXPECT_EQ(call.Refusal(),
            "penalties: output_tokens[0, 1] is 6, but must be at most 5, the vocabulary size, "
            "which stands for padding.");
}

}  // namespace
}  // namespace anyop::optest::penalties_test
