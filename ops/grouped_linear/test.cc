// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>

#include "anyop/scope.h"

namespace anyop::optest::grouped_linear_test {
namespace {

// 4100 rows are three waves, with groups that are larger than one; 17 rows are packed on the way.
const OpTest kGroupedLinear{
    .op = "grouped_linear",
    .tolerance = Sum("k", true),
    .sizes = {"m = 8, e = 16, n = 100, k = 576", "m = 70, e = 3, n = 40, k = 33",
              "m = 40, e = 1, n = 65, k = 130", "m = 4100, e = 2, n = 3, k = 5",
              "m = 5, e = 2, n = 33, k = 0", "m = 40, e = 1, n = 33, k = 0"},
};
TEST(GroupedLinear, MatchesItsReference) { CheckAll(kGroupedLinear); }

const OpTest kGroupedLinearPacked{
    .op = "grouped_linear_packed",
    .tolerance = Sum("k", true),
    .sizes = {"m = 8, e = 16, k = 576, k2 = 288, features = 100, n32 = 4",
              "m = 70, e = 3, k = 33, k2 = 17, features = 40, n32 = 2",
              "m = 4100, e = 2, k = 5, k2 = 3, features = 3, n32 = 1",
              "m = 5, e = 2, k = 0, k2 = 0, features = 33, n32 = 2"},
    .not_extreme = {{"packed", "its padding must hold zeros"}},
};
TEST(GroupedLinearPacked, MatchesItsReference) { CheckAll(kGroupedLinearPacked); }

const OpTest kGroupedLinearBackward{
    .op = "grouped_linear_backward",
    .tolerance =
        PerResult({{"dx", Sum("n", true)}, {"dweight", Sum("m", true)}, {"dbias", Sum("m")}}),
    .sizes = {"m = 70, e = 3, n = 65, k = 33", "m = 1030, e = 2, n = 5, k = 35",
              "m = 5, e = 7, n = 40, k = 100"},
};
TEST(GroupedLinearBackward, MatchesItsReference) { CheckAll(kGroupedLinearBackward); }

// 4u of the product, 2u of the sum, one rounding. The bias may be of any group; terms() would not
// do, because weights are whole numbers, which keep their signs there.
Allowed OfEpilogue(const Call& call) {
  const Array bias = call.given("bias") ? call.array("bias") : Array(DType::kF32, {1, 1}, {0});
  return [bias](const Element& e) {
    const std::int64_t n = bias.dim(1);
    double most = 0;
    for (std::int64_t at = e.index % n; at < bias.size(); at += n) {
      most = std::fmax(most, std::fabs(bias.Get(at)));
    }
    return 0.51 * e.ulp() + 4 * kU * (std::fabs(e.exact) + most) + 2 * kU * std::fabs(e.exact);
  };
}
const OpTest kGroupedLinearInt8{
    .op = "grouped_linear_int8",
    .tolerance = OfEpilogue,
    .sizes = {"m = 8, e = 16, n = 100, k = 576", "m = 70, e = 3, n = 40, k = 33",
              "m = 2100, e = 2, n = 3, k = 5"},
};
TEST(GroupedLinearInt8, MatchesItsReference) { CheckAll(kGroupedLinearInt8); }

const OpTest kGroupedLinearInt8Packed{
    .op = "grouped_linear_int8_packed",
    .tolerance = OfEpilogue,
    .sizes = {"m = 8, e = 16, k = 576, k4 = 144, features = 100, n32 = 4",
              "m = 70, e = 3, k = 33, k4 = 9, features = 40, n32 = 2"},
};
TEST(GroupedLinearInt8Packed, MatchesItsReference) { CheckAll(kGroupedLinearInt8Packed); }

// Rows of 2, 3 and 5 among two groups, of which the second is x -> 10 x; three rows are of none.
Call Example(DType dtype) {
  Call call("grouped_linear");
  call.Set("x", Array(dtype, {5, 2}, {2, 3, 5, 7, 1, 4, NAN, NAN, NAN, NAN}));
  call.Set("weight", Array(dtype, {3, 2, 2}, {1, 0, 0, 1, NAN, NAN, NAN, NAN, 10, 0, 0, 10}));
  call.Set("offsets", Array(DType::kI32, {4}, {0, 1, 1, 3}));
  return std::move(call.Set("bias", Array(dtype, {3, 2}, {1, 2, NAN, NAN, 100, 200})));
}

TEST(GroupedLinear, SkipsAnEmptyGroupAndClearsRowsBeyondTheLast) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    Call call = Example(dtype);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_EQ(results.find("y")->second,
                Array(dtype, {5, 2}, {3, 5, 150, 270, 110, 240, 0, 0, 0, 0}))
          << kernel;
    }
  }
}

TEST(GroupedLinearBackward, GivesZerosToAnEmptyGroupAndToRowsBeyondTheLast) {
  Call call("grouped_linear_backward");
  const Call forward = Example(DType::kF32);
  for (const char* name : {"x", "weight", "offsets"}) call.Set(name, forward.array(name));
  call.Set("dy", Array(DType::kF32, {5, 2}, {1, 2, 3, 4, 5, 6, NAN, NAN, NAN, NAN}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second,
              Array(DType::kF32, {5, 2}, {1, 2, 30, 40, 50, 60, 0, 0, 0, 0}))
        << kernel;
    EXPECT_EQ(results.find("dweight")->second,
              Array(DType::kF32, {3, 2, 2}, {2, 3, 4, 6, 0, 0, 0, 0, 20, 41, 26, 52}))
        << kernel;
    EXPECT_EQ(results.find("dbias")->second, Array(DType::kF32, {3, 2}, {1, 2, 0, 0, 8, 10}))
        << kernel;
  }
}

// What a packed weight gives, of floats and bytes, with 1 to 20 rows in each group.
void ExpectPackedIsTheSame(const char* op, const char* pack, DType weights) {
  for (const std::int64_t rows : {3, 40, 60}) {
    Call plain(op);
    Array x(DType::kBF16, {rows, 33}), weight(weights, {3, 70, 33});
    for (std::int64_t i = 0; i < x.size(); ++i) x.Set(i, double(i * 7 % 13 - 6) / 8);
    for (std::int64_t i = 0; i < weight.size(); ++i) {
      if (weights == DType::kI8) weight.SetInt(i, i * 11 % 17 - 8);
      if (weights != DType::kI8) weight.Set(i, double(i * 11 % 17 - 8) / 16);
    }
    plain.Set("x", x).Set("offsets",
                          Array(DType::kI64, {4}, {0., rows / 3., rows / 3., rows / 1.}));
    plain.Set("weight", weight);
    Call packed(std::string(op) + "_packed");
    packed.Set("x", x).Set("offsets", plain.array("offsets")).Set("features", 70);
    packed.Set("packed", Call(pack).Set("weight", weight).Run()["packed"]);
    if (weights == DType::kI8) {
      Array scale(DType::kF32, {3, 70});
      for (std::int64_t i = 0; i < scale.size(); ++i) scale.Set(i, 0.5 + double(i % 7));
      plain.Set("weight_scale", scale);
      packed.Set("weight_scale", scale);
    }
    const Array y = plain.Run()["y"];
    for (Call* call : {&plain, &packed}) {
      for (const auto& [kernel, results] : call->RunEveryKernel()) {
        EXPECT_EQ(results.find("y")->second, y) << call->op().name << " " << kernel << " " << rows;
      }
    }
  }
}
TEST(GroupedLinearPacked, GivesWhatGroupedLinearGives) {
  ExpectPackedIsTheSame("grouped_linear", "pack_weight", DType::kBF16);  // exact in any order
}
TEST(GroupedLinearInt8Packed, GivesWhatGroupedLinearInt8Gives) {
  ExpectPackedIsTheSame("grouped_linear_int8", "pack_weight_int8", DType::kI8);
}

TEST(GroupedLinear, IsRowInvariantInBatchInvariantMode) {
  Scope scope;
  scope.batch_invariant();
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    Call batch("grouped_linear");
    Array x(dtype, {30, 97}), weight(dtype, {2, 37, 97}), last(dtype, {1, 97});
    for (std::int64_t i = 0; i < x.size(); ++i) x.Set(i, std::sin(double(i)));
    for (std::int64_t i = 0; i < weight.size(); ++i) weight.Set(i, std::cos(double(i)));
    for (std::int64_t l = 0; l < 97; ++l) last.Set(l, x.Get({29, l}));
    batch.Set("x", x).Set("weight", weight).Set("offsets", Array(DType::kI32, {3}, {0, 4, 30}));
    const auto together = batch.RunEveryKernel();
    batch.Set("x", last).Set("offsets", Array(DType::kI32, {3}, {0, 0, 1}));
    for (const auto& [kernel, results] : batch.RunEveryKernel()) {
      for (std::int64_t j = 0; j < 37; ++j) {
        EXPECT_EQ(results.find("y")->second.Get(j),
                  together.find(kernel)->second.find("y")->second.Get({29, j}))
            << kernel;
      }
    }
  }
}

TEST(GroupedLinear, RefusesOffsetsThatEndBeyondTheRows) {
  const std::string text =
      Example(DType::kF32).Set("offsets", Array(DType::kI32, {4}, {0, 1, 1, 6})).Refusal();
  EXPECT_EQ(text.rfind("grouped_linear: offsets[3] is 6, but must", 0), 0u) << text;
}

TEST(GroupedLinearPacked, RefusesAPackedWeightOfAnotherWidth) {
  Call call("grouped_linear_packed");
  call.Set("x", Array(DType::kF32, {2, 6})).Set("packed", Array(DType::kF32, {1, 1, 2, 32, 2}));
  call.Set("features", 32).Set("offsets", Array(DType::kI32, {2}, {0, 2}));
  EXPECT_EQ(call.Refusal(),
            "grouped_linear_packed: k2 == ceil_div(k, 2) must hold, but k is 6 (x is f32[2, 6]), "
            "k2 is 2 (packed is f32[1, 1, 2, 32, 2]).");
}

}  // namespace
}  // namespace anyop::optest::grouped_linear_test
