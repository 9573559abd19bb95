// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

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

}  // namespace
}  // namespace anyop::optest::embedding_test
