// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/common/rotation/testing.h"

namespace anyop::optest::rotary_embedding_test {
namespace {

const OpTest kRotaryEmbedding{
    .op = "rotary_embedding",
    .tolerance = [](const Element& e) { return RotationAllowance(e, e.call.array(e.result)); },
    .row_invariant = true,
    .row_variable = "t",
    .sizes = {"t = 1, hq = 9, hkv = 3, d = 64, p = 100, r = 64, offset = 0",
              "t = 5, hq = 4, hkv = 1, d = 128, p = 33, r = 128, offset = 0",
              "t = 3, hq = 2, hkv = 2, d = 96, p = 3, r = 70, offset = 13",
              "t = 2, hq = 1, hkv = 1, d = 1200, p = 2, r = 1100, offset = 1",
              "t = 2, hq = 3, hkv = 2, d = 20, p = 2, r = 6, offset = 14"},
    .values = {{"offset", {0, 1, 2, 5}}},
};
TEST(RotaryEmbedding, MatchesItsReference) { CheckAll(kRotaryEmbedding); }

// One head of 6 elements; rotated are 4 from offset 1 by a table of two rows: (cos 0.5, 2; sin
// 0.25, 3) and the unit rotation.
Call OneHead(const char* style) {
  Call call("rotary_embedding");
  call.Set("positions", Array(DType::kI64, {1}, {0}));
  call.Set("query", Array(DType::kF32, {1, 1, 6}, {9, 1, 2, 3, 4, 8}));
  call.Set("cos_sin_cache", Array(DType::kF32, {2, 4}, {0.5, 2, 0.25, 3, 1, 1, 0, 0}));
  call.Set("offset", 1).Set("style", style);
  return call;
}
void ExpectQuery(Call call, const Array& expected) {
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("query")->second, expected) << kernel;
  }
}

TEST(RotaryEmbedding, PairsHalvesInStyleNeox) {
  // (1, 3) by (0.5, 0.25), (2, 4) by (2, 3)
  ExpectQuery(OneHead("neox"),
              Array(DType::kF32, {1, 1, 6}, {9, 0.5 - 0.75, 4 - 12, 1.5 + 0.25, 8 + 6, 8}));
}

TEST(RotaryEmbedding, PairsNeighboursInStyleGptj) {
  // (1, 2) by (0.5, 0.25), (3, 4) by (2, 3)
  ExpectQuery(OneHead("gptj"),
              Array(DType::kF32, {1, 1, 6}, {9, 0.5 - 0.5, 1 + 0.25, 6 - 12, 8 + 9, 8}));
}

TEST(RotaryEmbedding, TurnsBackWithInverse) {
  Call neox = OneHead("neox"), gptj = OneHead("gptj");
  neox.Set("inverse", true);
  gptj.Set("inverse", true);
  ExpectQuery(neox, Array(DType::kF32, {1, 1, 6}, {9, 0.5 + 0.75, 4 + 12, 1.5 - 0.25, 8 - 6, 8}));
  ExpectQuery(gptj, Array(DType::kF32, {1, 1, 6}, {9, 0.5 + 0.5, 1 - 0.25, 6 + 12, 8 - 9, 8}));
}

TEST(RotaryEmbedding, LeavesATokenOfPositionMinusOne) {
  Call call = OneHead("neox");
  call.Set("positions", Array(DType::kI32, {1}, {-1}));
  ExpectQuery(call, Array(DType::kF32, {1, 1, 6}, {9, 1, 2, 3, 4, 8}));
}

TEST(RotaryEmbedding, UsesRowIForTokenIWithoutPositions) {
  Call call = OneHead("neox");
  call.Remove("positions");
  call.Set("query", Array(DType::kF32, {2, 1, 6}, {9, 1, 2, 3, 4, 8, 9, 1, 2, 3, 4, 8}));
  ExpectQuery(call, Array(DType::kF32, {2, 1, 6},
                          {9, 0.5 - 0.75, 4 - 12, 1.5 + 0.25, 8 + 6, 8, 9, 1, 2, 3, 4, 8}));
}

TEST(RotaryEmbedding, DoesNotRoundTheTableToTheDtypeOfQuery) {
  Call call("rotary_embedding");
  // 1 + 2^-8 lies between two bf16 numbers; 257 * (1 + 2^-8)... is 258.0039, 1.0 would give 257.
  call.Set("query", Array(DType::kBF16, {1, 1, 2}, {256, 0}));
  call.Set("cos_sin_cache", Array(DType::kF32, {1, 2}, {1 + 0x1p-8 + 0x1p-12, 0}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("query")->second.Get(0), 258) << kernel;
  }
}

TEST(RotaryEmbedding, RoundsHalfToEven) {
  Call call("rotary_embedding");
  call.Set("query", Array(DType::kBF16, {1, 1, 128}, {1}));
  Array table(DType::kF32, {1, 128}, {1 + 0x1p-8});  // between 1 and 1 + 2^-7
  for (int j = 64; j < 128; ++j) table.Set(j, 0);
  call.Set("cos_sin_cache", table);
  for (const char* style : {"neox", "gptj"}) {
    call.Set("style", style);
    ExpectQuery(call, Array(DType::kBF16, {1, 1, 128}, {1}));
  }
}

TEST(RotaryEmbedding, KeepsSubnormals) {
  const double tiny = Ulp(DType::kBF16, 0);
  Call call("rotary_embedding");
  call.Set("query", Array(DType::kBF16, {1, 1, 128}, {3 * tiny}));
  Array table(DType::kF32, {1, 128}, {1});
  for (int j = 64; j < 128; ++j) table.Set(j, 0);
  call.Set("cos_sin_cache", table);
  for (const char* style : {"neox", "gptj"}) {
    call.Set("style", style);
    ExpectQuery(call, Array(DType::kBF16, {1, 1, 128}, {3 * tiny}));
  }
}

TEST(RotaryEmbedding, RefusesAPositionBeyondTheTable) {
  Call call = OneHead("neox");
  call.Set("positions", Array(DType::kI64, {1}, {2}));
  const std::string text = call.Refusal();
  EXPECT_EQ(text.rfind("rotary_embedding: positions[0] is 2, but must be less than 2", 0), 0u)
      << text;
}

}  // namespace
}  // namespace anyop::optest::rotary_embedding_test
