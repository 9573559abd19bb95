// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>

namespace anyop::optest::lora_test {
namespace {

const OpTest kShrink{
    .op = "lora_shrink",
    .tolerance = Sum("k"),
    .row_invariant = true,
    .row_variable = "t",
    .sizes = {"t = 7, k = 576, l = 3, r = 8", "t = 5, k = 300, l = 2, r = 17"},
    .ranges = {{"scale", {0.25, 2}}},
};
TEST(LoraShrink, MatchesItsReference) { CheckAll(kShrink); }

const OpTest kExpand{
    .op = "lora_expand",
    .tolerance = Sum("r + 1"),
    .row_invariant = true,
    .row_variable = "t",
    .sizes = {"t = 7, r = 8, l = 3, n = 100, w = 300, offset = 150",
              "t = 5, r = 35, l = 2, n = 70, w = 71, offset = 1"},
    .values = {{"offset", {0, 1, 3}}},
};
TEST(LoraExpand, MatchesItsReference) { CheckAll(kExpand); }

TEST(LoraShrink, GivesZerosToATokenWithoutAnAdapter) {
  Call call("lora_shrink");
  call.Set("x", Array(DType::kF32, {4, 2}, {1, 2, NAN, NAN, 5, 6, 7, 8})).Set("scale", 0.5);
  call.Set("a", Array(DType::kF32, {2, 3, 2}, {1, 0, 0, 1, 1, 1, 2, 0, 0, 2, 2, 2}));
  call.Set("indices", Array(DType::kI32, {4}, {1, -1, 0, 1}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second,
              Array(DType::kF32, {4, 3}, {1, 2, 3, 0, 0, 0, 2.5, 3, 5.5, 7, 8, 15}))
        << kernel;
  }
}

Call Expand() {
  Call call("lora_expand");
  call.Set("x", Array(DType::kF32, {3, 2}, {1, 2, NAN, NAN, 3, 4}));
  call.Set("b", Array(DType::kBF16, {2, 2, 2}, {1, 0, 0, 1, 10, 0, 0, 10}));
  call.Set("indices", Array(DType::kI64, {3}, {1, -1, 0})).Set("offset", 1);
  return call.Set("y", Array(DType::kBF16, {3, 4}, {5}));
}
void ExpectY(Call call, const Array& expected) {
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, expected) << kernel;
  }
}

TEST(LoraExpand, AddsToTheColumnsFromTheOffsetOn) {
  ExpectY(Expand(), Array(DType::kBF16, {3, 4}, {5, 15, 25, 5, 5, 5, 5, 5, 5, 8, 9, 5}));
}

TEST(LoraExpand, ReplacesWithoutAddButLeavesATokenWithoutAnAdapter) {
  ExpectY(Expand().Set("add", false),
          Array(DType::kBF16, {3, 4}, {5, 10, 20, 5, 5, 5, 5, 5, 5, 3, 4, 5}));
}

TEST(LoraExpand, RoundsTheSumOnce) {
  // 256 + 1 + 2^-10 goes to 258; 1 + 2^-10 as a bf16 is 1, and 257 would go to 256.
  Call call("lora_expand");
  call.Set("x", Array(DType::kF32, {1, 2}, {1, 0x1p-10}))
      .Set("y", Array(DType::kBF16, {1, 1}, {256}));
  call.Set("b", Array(DType::kBF16, {1, 1, 2}, {1, 1}));
  call.Set("indices", Array(DType::kI32, {1}, {0}));
  ExpectY(call, Array(DType::kBF16, {1, 1}, {258}));
}

TEST(Lora, RefusesAnAdapterThatIsNotThereAndColumnsBeyondY) {
  Call call = Expand();
  call.Set("indices", Array(DType::kI32, {3}, {0, 0, 2}));
  const std::string text = call.Refusal();
  EXPECT_EQ(text.rfind("lora_expand: indices[2] is 2, but must be less than 2", 0), 0u) << text;
  EXPECT_EQ(Expand().Set("offset", 3).Refusal(),
            "lora_expand: offset + n <= w must hold, but offset is 3, n is 2 (b is bf16[2, 2, 2]), "
            "w is 4 (y is bf16[3, 4]).");
}

}  // namespace
}  // namespace anyop::optest::lora_test
