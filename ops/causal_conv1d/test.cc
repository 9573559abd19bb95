// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

namespace anyop::optest::causal_conv1d_test {
namespace {

// A state of its own for each sequence, none for some.
void Place(Call& call) {
  // Without states no slot is out of range, as a wrong call would have to be.
  if (!call.given("conv_state")) call.Remove("state_indices");
  if (!call.given("state_indices")) return;
  Array& indices = call.array("state_indices");
  const std::int64_t slots = call.array("conv_state").dim(0);
  std::vector<std::int64_t> free(std::size_t(std::max(slots, indices.size())), -1);
  std::iota(free.begin(), free.begin() + slots, 0);
  std::shuffle(free.begin(), free.end(), call.random());
  for (std::int64_t s = 0; s < indices.size(); ++s) {
    indices.SetInt(s, call.Draw(0, 4) ? free[std::size_t(s)] : -1);
  }
}

// D(k + 1), through silu (whose slope is at most 1.1, and silu(S) >= S / 2) and 4 ulp of its own.
Allowed SumOfTaps(const Call& call) {
  const bool silu = call.word("activation") == "silu";
  const double sum = (4 + 2 * std::sqrt(call.value("k + 1"))) * kU * (silu ? 2.2 : 1);
  return [silu, sum](const Element& e) {
    const double ulps = silu && e.dtype == DType::kF32 ? 4 : 0.51;
    return ulps * e.ulp() + sum * e.terms() + (silu ? 0x1p-126 : 0);
  };
}

const OpTest kCausalConv1d{
    .op = "causal_conv1d",
    .tolerance = PerResult({{"y", Tolerance(SumOfTaps)}}),
    .sizes = {"t = 30, c = 300, k = 4, b = 3, l = 5, k1 = 3",
              "t = 7, c = 70, k = 3, b = 4, l = 4, k1 = 9"},
    .prepare = Place,
};
TEST(CausalConv1d, MatchesItsReference) { CheckAll(kCausalConv1d); }

const OpTest kUpdate{
    .op = "causal_conv1d_update",
    .tolerance = PerResult({{"y", Tolerance(SumOfTaps)}}),
    .sizes = {"c = 300, k = 4, b = 3, l = 5, k1 = 3", "c = 70, k = 3, b = 4, l = 4, k1 = 9"},
    .prepare = Place,
};
TEST(CausalConv1dUpdate, MatchesItsReference) { CheckAll(kUpdate); }

// One channel, filter (100, 10, 1): the digits of a result are the inputs that it saw.
Call Digits(std::initializer_list<double> x, std::initializer_list<double> starts) {
  Call call("causal_conv1d");
  call.Set("x", Array(DType::kF32, {std::int64_t(x.size()), 1}, x));
  call.Set("weight", Array(DType::kF32, {1, 3}, {100, 10, 1}));
  return call.Set("query_start_loc", Array(DType::kI32, {std::int64_t(starts.size())}, starts));
}
void Expect(Call call, const char* result, const Array& expected) {
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find(result)->second, expected) << kernel;
  }
}
Array States(std::initializer_list<double> values, std::int64_t rows = 2) {
  return Array(DType::kF32, {std::int64_t(values.size()) / rows, rows, 1}, values);
}
Array Bools(std::initializer_list<double> values) {
  return Array(DType::kBool, {std::int64_t(values.size())}, values);
}

TEST(CausalConv1d, SeesZerosBeforeASequenceWithoutAState) {
  Call call = Digits({1, 2, 3, 4, 5, 6}, {0, 4, 5});
  Expect(call, "y", Array(DType::kF32, {6, 1}, {1, 12, 123, 234, 5, 0}));
  // States that hold something, but that no sequence goes on from.
  call.Set("conv_state", States({7, 8, 9, 9}));
  Expect(call, "y", Array(DType::kF32, {6, 1}, {1, 12, 123, 234, 5, 0}));
  Expect(call, "conv_state", States({3, 4, 0, 5}));
}

TEST(CausalConv1d, GoesOnFromTheStateOldestFirst) {
  Call call = Digits({1, 2, 3, 4}, {0, 3, 4});
  call.Set("conv_state", States({7, 8, 5, 6})).Set("has_initial_state", Bools({1, 1}));
  Expect(call, "y", Array(DType::kF32, {4, 1}, {781, 812, 123, 564}));
  Expect(call, "conv_state", States({2, 3, 6, 4}));
  call.Set("state_indices", Array(DType::kI64, {2}, {1, 0}));
  Expect(call, "y", Array(DType::kF32, {4, 1}, {561, 612, 123, 784}));
}

TEST(CausalConv1d, ShiftsALongerStateByAShortSequence) {
  Call call = Digits({1}, {0, 1});
  call.Set("conv_state", States({6, 7, 8, 9}, 4)).Set("has_initial_state", Bools({1}));
  Expect(call, "y", Array(DType::kF32, {1, 1}, {891}));
  Expect(call, "conv_state", States({7, 8, 9, 1}, 4));
  Expect(call.Set("has_initial_state", Bools({0})), "conv_state", States({0, 0, 0, 1}, 4));
}

TEST(CausalConv1d, KeepsTheStateOfAnEmptySequenceThatGoesOn) {
  Call call = Digits({1}, {0, 0, 0});
  call.Set("conv_state", States({6, 7, 8, 9})).Set("has_initial_state", Bools({1, 0}));
  Expect(call, "conv_state", States({6, 7, 0, 0}));
}

TEST(CausalConv1d, SkipsASequenceOfMinusOne) {
  Call call = Digits({1, 2, 3}, {0, 2, 3});
  call.Set("conv_state", States({6, 7, 8, 9})).Set("has_initial_state", Bools({1, 1}));
  call.Set("state_indices", Array(DType::kI32, {2}, {-1, 0}));
  Expect(call, "y", Array(DType::kF32, {3, 1}, {0, 0, 673}));
  Expect(call, "conv_state", States({7, 3, 8, 9}));
  Expect(call.Set("state_indices", Array(DType::kI32, {2}, {-1})), "y",
         Array(DType::kF32, {3, 1}, {0}));
}

TEST(CausalConv1d, SkipsASequenceWithoutStatesToo) {
  Call call = Digits({1, 2, 3}, {0, 1, 3});
  Expect(call.Set("state_indices", Array(DType::kI32, {2}, {-1, 70})), "y",
         Array(DType::kF32, {3, 1}, {0, 2, 23}));
}

TEST(CausalConv1d, AddsABiasAndAppliesSilu) {
  Call call = Digits({1, 2}, {0, 2});
  call.Set("bias", Array(DType::kF32, {1}, {-13})).Set("activation", "silu");
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& y = results.find("y")->second;
    EXPECT_NEAR(y.Get(0), -12 / (1 + std::exp(12)), 1e-9) << kernel;
    EXPECT_NEAR(y.Get(1), -1 / (1 + std::exp(1)), 1e-6) << kernel;
  }
}

// A sequence of 11 tokens at once, cut in two, and token by token.
TEST(CausalConv1d, GivesTheBitsOfTheWholeForChunks) {
  const std::int64_t t = 11, c = 70, k = 4;
  std::mt19937_64 random(3);
  const auto fill = [&](Array a) {
    for (std::int64_t i = 0; i < a.size(); ++i) a.Set(i, double(random() % 2000) / 1000 - 1);
    return a;
  };
  const Array x = fill(Array(DType::kBF16, {t, c})), w = fill(Array(DType::kBF16, {c, k}));
  const Array state = fill(Array(DType::kBF16, {1, k - 1, c}));
  const auto run = [&](const char* op, std::int64_t begin, std::int64_t end, const Array& before) {
    Array part(DType::kBF16, {end - begin, c});
    for (std::int64_t i = 0; i < part.size(); ++i) part.Set(i, x.Get(begin * c + i));
    Call call(op);
    call.Set("x", part).Set("weight", w).Set("conv_state", before).Set("activation", "silu");
    if (std::string_view(op) == "causal_conv1d") {
      call.Set("query_start_loc", Array(DType::kI32, {2}, {0, double(end - begin)}));
      call.Set("has_initial_state", Bools({1}));
    }
    return call.RunEveryKernel();
  };
  for (auto& [kernel, whole] : run("causal_conv1d", 0, t, state)) {
    const Array &y = whole["y"], &last = whole["conv_state"];
    Results first = run("causal_conv1d", 0, 5, state)[kernel];
    Results second = run("causal_conv1d", 5, t, first["conv_state"])[kernel];
    EXPECT_EQ(std::memcmp(second["y"].data<char>(), y.data<char>() + 5 * c * 2, 6 * c * 2), 0);
    EXPECT_EQ(second["conv_state"], last) << kernel;
    Array before = state;
    for (std::int64_t i = 0; i < t; ++i) {
      Results step = run("causal_conv1d_update", i, i + 1, before)[kernel];
      EXPECT_EQ(std::memcmp(step["y"].data<char>(), y.data<char>() + i * c * 2, c * 2), 0) << i;
      before = step["conv_state"];
    }
    EXPECT_EQ(before, last) << kernel;
  }
}

TEST(CausalConv1d, RefusesTwoSequencesOfOneStateInCheckMode) {
  Call call = Digits({1, 2, 3}, {0, 2, 3});
  call.Set("conv_state", States({6, 7, 8, 9}));
  call.Set("state_indices", Array(DType::kI32, {2}, {1, 1}));
  Call update("causal_conv1d_update");
  update.Set("x", Array(DType::kF32, {2, 1})).Set("weight", call.array("weight"));
  update.Set("conv_state", call.array("conv_state"));
  update.Set("state_indices", call.array("state_indices"));
  EXPECT_NO_THROW(call.Run());
  const Checking checking;
  const std::string text =
      ": state_indices[1] is 1, but must differ from state_indices[0], because a state belongs to "
      "one sequence.";
  EXPECT_EQ(call.Refusal(), "causal_conv1d" + text);
  EXPECT_EQ(update.Refusal(), "causal_conv1d_update" + text);
}

TEST(CausalConv1d, RefusesStatesThatAreNotThere) {
  Call call = Digits({1, 2, 3}, {0, 2, 3});
  call.Set("conv_state", States({6, 7}));
  EXPECT_EQ(call.Refusal(),
            "causal_conv1d: given(state_indices) or l >= b must hold, but state_indices is None, l "
            "is 1 (conv_state is f32[1, 2, 1]), b is 2 (query_start_loc is i32[3]).");
  call.Set("state_indices", Array(DType::kI32, {2}, {0, 1}));
  const std::string text = call.Refusal();
  EXPECT_EQ(text.rfind("causal_conv1d: state_indices[1] is 1, but must be less than 1", 0), 0u)
      << text;
  call.Set("conv_state", Array(DType::kF32, {2, 1, 1}));
  EXPECT_EQ(call.Refusal(),
            "causal_conv1d: k1 >= k - 1 must hold, but k is 3 (weight is f32[1, 3]), k1 is 1 "
            "(conv_state is f32[2, 1, 1]).");
}

}  // namespace
}  // namespace anyop::optest::causal_conv1d_test
