// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <limits>
#include <memory>

#include "anyop/scope.h"
#include "ops/common/elementwise/activation.h"

namespace anyop::optest::linear_test {
namespace {

// D(k), carried through the activation: its slope times the error of the sum z, and E for itself.
Allowed ThroughActivation(const Call& call) {
  Call plain = call;
  plain.Set("activation", "none");
  auto sums = std::make_shared<Array>(plain.Exact()["y"]);
  for (const char* name : {"x", "weight", "packed", "bias"}) {
    if ((call.op().contract->param(name) < 0) || !plain.given(name)) continue;
    Array& a = plain.array(name);
    for (std::int64_t i = 0; i < a.size(); ++i) a.Set(i, std::fabs(a.Get(i)));
  }
  auto terms = std::make_shared<Array>(plain.Exact()["y"]);
  const std::string activation(call.word("activation"));
  const double k = double(call.array("x").dim(-1));
  return [=](const Element& e) {
    // A sum that overflows on the way is an infinity, of which an activation may make a number.
    if (terms->Get(e.index) > Largest(DType::kF32) / 4) return 1e300;
    const double z = std::fabs(sums->Get(e.index));
    const double error = (4 + 2 * std::sqrt(k)) * kU * terms->Get(e.index) + k * 0x1p-126 * 4;
    if (activation == "none" || activation == "relu") return 0.51 * e.ulp() + error;
    const double ulps = e.dtype == DType::kF32 ? 4 : 0.51;
    if (activation == "relu2") return ulps * e.ulp() + (2 * z + error) * error;
    const double slope = activation == "sigmoid" ? 0.25 : 1.13;
    return ulps * e.ulp() + slope * error + 4 * kU * (activation == "sigmoid" ? 0 : z) +
           0x1p-126 * (1 + z);
  };
}

const OpTest kLinear{
    .op = "linear",
    .tolerance = ThroughActivation,
    .sizes = {"rows = 1, n = 960, k = 576", "rows = 16, n = 100, k = 576",
              "rows = 7, n = 33, k = 97", "rows = 13, n = 65, k = 130", "rows = 70, n = 40, k = 33",
              "rows = 5, n = 3, k = 0", "rows = 20, n = 3, k = 0", "rows = 18, n = 65, k = 130",
              "rows = 520, n = 32, k = 5"},
};
TEST(Linear, MatchesItsReference) { CheckAll(kLinear); }

const OpTest kLinearPacked{
    .op = "linear_packed",
    .tolerance = ThroughActivation,
    .row_invariant = true,
    .sizes = {"rows = 1, k = 576, k2 = 288, features = 960, n32 = 30",
              "rows = 16, k = 576, k2 = 288, features = 100, n32 = 4",
              "rows = 7, k = 97, k2 = 49, features = 33, n32 = 2",
              "rows = 13, k = 130, k2 = 65, features = 65, n32 = 3",
              "rows = 5, k = 0, k2 = 0, features = 3, n32 = 1",
              "rows = 520, k = 5, k2 = 3, features = 32, n32 = 1"},
    .not_extreme = {{"packed", "its padding must hold zeros"}},
};
TEST(LinearPacked, MatchesItsReference) { CheckAll(kLinearPacked); }

const OpTest kPackWeight{
    .op = "pack_weight",
    .sizes = {"n = 100, k = 576", "n = 64, k = 4096"},
};
TEST(PackWeight, MatchesItsReference) { CheckAll(kPackWeight); }

// As the operators of these names: gelu is 0 there, and silu NaN, for sigma(-inf) is 0.
TEST(Linear, TreatsSumsOfInfinityAsActivationsDo) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int i = 0; i < ops::kActivations; ++i) {
      const std::string activation(ops::ActivationWord(i));
      Call call("linear");
      call.Set("x", Array(dtype, {3, 2}, {-HUGE_VAL, 1, HUGE_VAL, 1, 1, 1}));
      call.Set("weight", Array(dtype, {1, 2}, {1, 1})).Set("activation", activation.c_str());
      const bool is_gelu = activation.starts_with("gelu");
      for (const auto& [kernel, results] : call.RunEveryKernel()) {
        const Array& y = results.at("y");
        const double at_minus_infinity = y.Get(0), at_infinity = y.Get(1);
        EXPECT_TRUE(activation != "silu" || std::isnan(at_minus_infinity)) << kernel;
        EXPECT_TRUE(!is_gelu || at_minus_infinity == 0) << kernel << " " << activation;
        EXPECT_EQ(at_infinity, activation == "sigmoid" ? 1 : HUGE_VAL) << kernel << activation;
      }
    }
  }
}

// A call whose sums are multiples of 2^-7 below 2^8: exact in f32, in any order.
Call Example(DType dtype, std::int64_t rows, std::int64_t n, std::int64_t k) {
  Call call("linear");
  Array x(dtype, {rows, k}), weight(dtype, {n, k});
  for (std::int64_t i = 0; i < x.size(); ++i) x.Set(i, double(i * 7 % 13 - 6) / 8);
  for (std::int64_t i = 0; i < weight.size(); ++i) weight.Set(i, double(i * 11 % 17 - 8) / 16);
  return std::move(call.Set("x", x).Set("weight", weight));
}

Array Row(const Array& a, std::int64_t row) {
  Array r(a.dtype(), {1, a.dim(1)});
  for (std::int64_t j = 0; j < a.dim(1); ++j) r.Set(j, a.Get({row, j}));
  return r;
}

TEST(Linear, IsRowInvariantInBatchInvariantMode) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    Scope scope;
    scope.batch_invariant();
    for (std::int64_t rows : {2, 8, 16, 17, 19}) {
      Call batch = Example(dtype, rows, 37, 579);
      for (const char* name : {"x", "weight"}) {  // sums that depend on their order
        Array& a = batch.array(name);
        for (std::int64_t i = 0; i < a.size(); ++i) a.Set(i, std::sin(double(i)));
      }
      const auto together = batch.RunEveryKernel();
      Call alone = batch;
      alone.Set("x", Row(batch.array("x"), rows - 1));
      for (const auto& [kernel, results] : alone.RunEveryKernel()) {
        EXPECT_EQ(results.find("y")->second,
                  Row(together.find(kernel)->second.find("y")->second, rows - 1))
            << kernel << " with " << rows << " rows";
      }
    }
  }
}

TEST(Linear, LeavesTheSumUnroundedWithOutputF32) {
  Call call = Example(DType::kBF16, 3, 5, 40);
  call.Set("output", "f32");
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, [&] {
      Array y(DType::kF32, {3, 5});
      const Array exact = call.Exact()["y"];
      for (std::int64_t i = 0; i < y.size(); ++i) y.Set(i, exact.Get(i));
      return y;
    }()) << kernel;
  }
}

TEST(LinearPacked, LeavesTheSumUnroundedWithOutputF32) {
  Call plain = Example(DType::kBF16, 3, 5, 40);
  plain.Set("output", "f32");
  const Array exact = plain.Exact()["y"], weight = plain.array("weight");
  Call call("linear_packed");
  call.Set("packed", Call("pack_weight").Set("weight", weight).Run()["packed"]).Set("features", 5);
  call.Set("x", plain.array("x")).Set("output", "f32");
  if (plain.given("bias")) call.Set("bias", plain.array("bias"));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& y = results.find("y")->second;
    ASSERT_EQ(y.dtype(), DType::kF32) << kernel;
    for (std::int64_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(y.Get(i), float(exact.Get(i))) << kernel;
    }
  }
}

TEST(Linear, GivesTheActivationOfTheBiasForNoTerms) {
  Call call("linear");
  call.Set("x", Array(DType::kF32, {2, 0})).Set("weight", Array(DType::kF32, {3, 0}));
  call.Set("bias", Array(DType::kF32, {3}, {-1, 0, 3})).Set("activation", "relu2");
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {2, 3}, {0, 0, 9, 0, 0, 9})) << kernel;
  }
}

TEST(Linear, KeepsNaNInItsRow) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  for (int word = 0; word < ops::kActivations; ++word) {
    const std::string activation(ops::ActivationWord(word));
    for (double odd : {nan, infinity}) {
      Call call = Example(DType::kF32, 3, 35, 21);
      Array x = call.array("x");
      x.Set({1, 20}, odd);
      if (odd == infinity) x.Set({1, 3}, -infinity);  // inf - inf, whatever the weights' signs
      Array weight = call.array("weight");
      for (std::int64_t i = 0; i < weight.size(); ++i) weight.Set(i, 1);
      call.Set("x", x).Set("weight", weight).Set("activation", activation);
      for (const auto& [kernel, results] : call.RunEveryKernel()) {
        const Array& y = results.find("y")->second;
        for (std::int64_t i = 0; i < y.size(); ++i) {
          EXPECT_EQ(std::isnan(y.Get(i)), i / 35 == 1) << kernel << " " << activation << " " << i;
        }
      }
    }
  }
}

// Kernels take several rows and terms of a weight at once: what lies beyond a row is of another.
TEST(Linear, KeepsNaNOfAWeightInItsColumn) {
  constexpr std::int64_t kColumns = 70;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t k : {1, 21, 63, 64}) {
      for (const std::int64_t odd : {0, 1, 31, 32, 69}) {
        Call call = Example(dtype, 20, kColumns, k), packed("linear_packed");
        Array weight = call.array("weight");
        for (std::int64_t l = 0; l < k; ++l) weight.Set({odd, l}, std::nan(""));
        call.Set("weight", weight);
        packed.Set("packed", Call("pack_weight").Set("weight", weight).Run()["packed"]);
        packed.Set("features", kColumns).Set("x", call.array("x"));
        for (Call* each : {&call, &packed}) {
          for (const auto& [kernel, results] : each->RunEveryKernel()) {
            const Array& y = results.find("y")->second;
            for (std::int64_t i = 0; i < y.size(); ++i) {
              ASSERT_EQ(std::isnan(y.Get(i)), i % kColumns == odd)
                  << kernel << " " << Name(dtype) << " k " << k << " of " << odd << " at " << i;
            }
          }
        }
      }
    }
  }
}

TEST(Linear, GivesWhatLinearPackedGives) {
  Call call = Example(DType::kBF16, 9, 70, 33);
  Call pack("pack_weight");
  pack.Set("weight", call.array("weight"));
  Call packed("linear_packed");
  packed.Set("x", call.array("x")).Set("packed", pack.Run()["packed"]).Set("features", 70);
  EXPECT_EQ(packed.Run()["y"], call.Run()["y"]);  // sums of multiples of 2^-7: exact in any order
}

// Sums so long that they are cut into chunks, with and without panels that take turns; all of them
// are exact in f32.
TEST(Linear, AddsLongSumsInChunks) {
  struct Sizes {
    DType dtype;
    std::int64_t rows, n, k;
  };
  for (const Sizes& s : {Sizes{DType::kF32, 20, 33, 700}, Sizes{DType::kF32, 130, 130, 1001},
                         Sizes{DType::kF16, 130, 100, 1001}, Sizes{DType::kBF16, 20, 33, 700},
                         Sizes{DType::kBF16, 161, 70, 1250}, Sizes{DType::kBF16, 260, 130, 2100}}) {
    Call call = Example(s.dtype, s.rows, s.n, s.k);
    call.Set("output", "f32");
    const Array exact = call.Exact()["y"];
    Array y(DType::kF32, {s.rows, s.n});
    for (std::int64_t i = 0; i < y.size(); ++i) y.Set(i, exact.Get(i));
    Call packed("linear_packed");
    packed.Set("x", call.array("x")).Set("features", s.n).Set("output", "f32");
    packed.Set("packed", Call("pack_weight").Set("weight", call.array("weight")).Run()["packed"]);
    for (int threads : {1, 2}) {
      Scope scope;
      scope.threads(threads);
      for (Call* way : {&call, &packed}) {
        for (const auto& [kernel, results] : way->RunEveryKernel()) {
          EXPECT_EQ(results.find("y")->second, y)
              << (way == &call ? "linear " : "linear_packed ") << kernel << ": " << s.rows
              << " rows, " << s.n << " columns, " << s.k << " terms, " << threads << " threads";
        }
      }
    }
  }
}

// k and features are not recorded in the packed weight, but zeros stand where it ends.
TEST(LinearPacked, RefusesAPackedWeightOfMoreRowsOrTermsInCheckMode) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    Call pack("pack_weight");
    pack.Set("weight", Example(dtype, 1, 35, 6).array("weight"));
    Call call("linear_packed");
    call.Set("packed", pack.Run()["packed"]);
    const auto refusal = [&](std::int64_t features, std::int64_t k) {
      call.Set("x", Array(dtype, {2, k}, {1})).Set("features", features);
      EXPECT_NO_THROW(call.Run());
      const Checking checking;
      return call.Refusal();
    };
    EXPECT_EQ(refusal(35, 5),
              "linear_packed: packed[0, 2, 0, 1] is -0.25, but must be 0, because it lies beyond a "
              "weight of [35, 5], which is [features, k]. Try the weight of that size.");
    EXPECT_EQ(
        refusal(33, 6),
        "linear_packed: packed[1, 0, 1, 0] is -0.375, but must be 0, because it lies beyond a "
        "weight of [33, 6], which is [features, k]. Try the weight of that size.");
    const Checking checking;
    for (const std::int64_t features : {35, 36}) {
      call.Set("x", Array(dtype, {2, 6}, {1})).Set("features", features);
      EXPECT_NO_THROW(call.Run()) << "more rows than there are look like padding";
    }
  }
}

TEST(LinearPacked, RefusesAPackedWeightOfAnotherWidth) {
  Call call("linear_packed");
  call.Set("x", Array(DType::kF32, {2, 6})).Set("packed", Array(DType::kF32, {1, 2, 32, 2}));
  call.Set("features", 32);
  EXPECT_EQ(call.Refusal(),
            "linear_packed: k2 == ceil_div(k, 2) must hold, but k is 6 (x is f32[2, 6]), k2 is 2 "
            "(packed is f32[1, 2, 32, 2]).");
}

}  // namespace
}  // namespace anyop::optest::linear_test
