// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <vector>

namespace anyop::optest::embedding_test {
namespace {

const OpTest kEmbedding{
    .op = "embedding",
    .tolerance = Exact(),
    .row_invariant = true,
    .sizes = {"rows = 1, v = 300, d = 576", "rows = 2, v = 7, d = 33"},
    .prepare_gradient = [](Call& call) { call.Set("padding_idx", -1); },  // it has no gradient
};
TEST(Embedding, MatchesItsReference) { CheckAll(kEmbedding); }

Call Gather(std::initializer_list<double> ids) {
  Call call("embedding");
  call.Set("ids", Array(DType::kI32, {std::int64_t(ids.size())}, ids));
  call.Set("weight", Array(DType::kBF16, {3, 2}, {1, 2, 3, 4, 5, 6}));
  return call;
}

TEST(Embedding, GathersRowsInTheOrderOfIds) {
  const Array expected(DType::kBF16, {4, 2}, {5, 6, 1, 2, 5, 6, 3, 4});
  EXPECT_EQ(Gather({2, 0, 2, 1}).Run()["y"], expected);
}

TEST(Embedding, GivesAZeroRowForEveryNegativeId) {
  const Array expected(DType::kBF16, {3, 2}, {0, 0, 3, 4, 0, 0});
  EXPECT_EQ(Gather({-1, 1, -7}).Run()["y"], expected);
}

TEST(Embedding, LeavesThePaddingRowInTheForwardPass) {
  Call call = Gather({1, 0});
  call.Set("padding_idx", 1);
  EXPECT_EQ(call.Run()["y"], Array(DType::kBF16, {2, 2}, {3, 4, 1, 2}));
}

TEST(Embedding, TakesAScalarId) {
  Call call = Gather({1});
  call.Set("ids", Array(DType::kI64, {}, {2}));
  EXPECT_EQ(call.Run()["y"], Array(DType::kBF16, {2}, {5, 6}));
}

TEST(Embedding, RefusesAnIdBeyondTheTable) {
  const std::string text = Gather({0, 3}).Refusal();
  EXPECT_EQ(text.rfind("embedding: ids[1] is 3, but must be less than 3", 0), 0u) << text;
}

// D(number of uses of the row).
Tolerance SumOfUses() {
  return [](const Call& call) -> Allowed {
    const Array& ids = call.array("ids");
    std::vector<double> uses(std::size_t(call.array("weight").dim(0)), 0);
    for (std::int64_t i = 0; i < ids.size(); ++i) {
      if (ids.GetInt(i) >= 0) ++uses[std::size_t(ids.GetInt(i))];
    }
    return [uses, d = call.array("weight").dim(1)](const Element& e) {
      const double k = uses[std::size_t(e.index / d)];
      return 0.51 * e.ulp() + (k > 1 ? (4 + 2 * std::sqrt(k)) * kU * e.terms() : 0);
    };
  };
}

const OpTest kEmbeddingBackward{
    .op = "embedding_backward",
    .tolerance = SumOfUses(),
    .sizes = {"rows = 300, v = 40, d = 65", "rows = 2, v = 700, d = 33"},
    .values = {{"padding_idx", {-1, 0, 2}}},
};
TEST(EmbeddingBackward, MatchesItsReference) { CheckAll(kEmbeddingBackward); }

Call Scatter(std::initializer_list<double> ids) {
  Call call("embedding_backward");
  call.Set("ids", Array(DType::kI32, {std::int64_t(ids.size())}, ids));
  call.Set("dy", Array(DType::kF32, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  call.Set("weight", Array(DType::kF32, {3, 2}, {NAN})).Set("padding_idx", -1);
  return call;
}

void ExpectGradient(Call call, std::initializer_list<double> expected) {
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dweight")->second, Array(DType::kF32, {3, 2}, expected)) << kernel;
  }
}

TEST(EmbeddingBackward, AddsTheRowsOfEveryId) {
  ExpectGradient(Scatter({2, 0, 2, 2}), {3, 4, 0, 0, 13, 16});
}

TEST(EmbeddingBackward, LeavesNegativeIdsAndThePaddingRowOut) {
  ExpectGradient(Scatter({-1, 0, 1, -7}), {3, 4, 5, 6, 0, 0});
  Call call = Scatter({2, 0, 2, 1});
  call.Set("padding_idx", 2);
  ExpectGradient(call, {3, 4, 7, 8, 0, 0});
}

// In another order these sums would come out as 0.
TEST(EmbeddingBackward, AddsInRisingOrder) {
  Call call = Scatter({1, 1, 1, 0});
  call.Set("dy", Array(DType::kF32, {4, 2}, {0x1p30, 0x1p30, -0x1p30, -0x1p30, 1, 1, 0, 0}));
  ExpectGradient(call, {0, 0, 1, 1, 0, 0});
}

TEST(EmbeddingBackward, RefusesAnIdBeyondTheTable) {
  const std::string text = Scatter({0, 3, 0, 0}).Refusal();
  EXPECT_EQ(text.rfind("embedding_backward: ids[1] is 3, but must be less than 3", 0), 0u) << text;
}

}  // namespace
}  // namespace anyop::optest::embedding_test
