// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>

namespace anyop::optest::fused_moe_test {
namespace {

// What the reference says with every sign removed, of bytes too.
Array TermsOf(Call call) {
  for (const char* name : {"x", "w13", "w2", "b13", "b2", "weights", "w13_scale", "w2_scale"}) {
    if (call.op().contract->param(name) < 0 || !call.given(name)) continue;
    Array& a = call.array(name);
    for (std::int64_t i = 0; i < a.size(); ++i) {
      if (a.dtype() == DType::kI8) a.SetInt(i, std::min(127, std::abs(int(a.Get(i)))));
      if (a.dtype() != DType::kI8) a.Set(i, std::fabs(a.Get(i)));
    }
  }
  return call.Exact()["y"];
}

// Both products are sums that pass through each other, and an element of q, near a tie, may be
// rounded to its other neighbour. width: the name of f; of_one: what a byte of q may be off by.
Tolerance OfLayer(const char* width, double of_one = 0) {
  return Tolerance([=](const Call& call) -> Allowed {
    const DType dtype = call.array("x").dtype();
    const double ulp = dtype == DType::kF32 ? 0 : dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11;
    const double d = double(call.array("x").dim(1) + call.array("ids").dim(1));
    const double f = call.value(width);
    const double of_terms = (40 + 6 * (std::sqrt(d) + std::sqrt(f))) * kU + ulp + of_one;
    return [=, terms = TermsOf(call)](const Element& e) {
      return 0.51 * e.ulp() + of_terms * terms.Get(e.index);
    };
  });
}

const OpTest kFusedMoe{
    .op = "fused_moe",
    .tolerance = OfLayer("f"),
    .sizes = {"t = 1, d = 130, f = 65, e = 16, k = 8", "t = 40, d = 33, f = 20, e = 2, k = 2",
              "t = 7, d = 64, f = 33, e = 3, k = 1"},
    .ranges = {{"limit", {0.5, 4}}, {"weights", {0, 1}}},
};
TEST(FusedMoe, MatchesItsReference) { CheckAll(kFusedMoe); }

const OpTest kFusedMoePacked{
    .op = "fused_moe_packed",
    .tolerance = OfLayer("features"),
    .row_invariant = true,
    .row_variable = "t",
    .sizes = {"t = 40, d = 33, d2 = 17, n2 = 2, features = 20, n13 = 2, f2 = 10, e = 2, k = 2",
              "t = 7, d = 130, d2 = 65, n2 = 5, features = 65, n13 = 5, f2 = 33, e = 16, k = 8"},
    .ranges = {{"limit", {0.5, 4}}, {"weights", {0, 1}}},
    .not_extreme = {{"w13", "its padding must hold zeros"}, {"w2", "its padding must hold zeros"}},
};
TEST(FusedMoePacked, MatchesItsReference) { CheckAll(kFusedMoePacked); }

// A byte of q may differ by 1 where act is near a tie: 1/127 of the largest.
const OpTest kFusedMoeInt8{
    .op = "fused_moe_int8",
    .tolerance = OfLayer("f", 0x1p-7),
    .row_invariant = true,
    .row_variable = "t",
    .sizes = {"t = 40, d = 33, f = 20, e = 2, k = 2", "t = 1, d = 130, f = 65, e = 16, k = 8"},
    .ranges = {{"limit", {0.5, 4}}, {"weights", {0, 1}}},
    .not_extreme = {{"*", "rows become bytes, which hold neither NaN nor infinities"}},
};
TEST(FusedMoeInt8, MatchesItsReference) { CheckAll(kFusedMoeInt8); }

const OpTest kFusedMoeInt8Packed{
    .op = "fused_moe_int8_packed",
    .tolerance = OfLayer("features", 0x1p-7),
    .row_invariant = true,
    .row_variable = "t",
    .sizes = {"t = 40, d = 33, d4 = 9, n2 = 2, features = 20, n13 = 2, f4 = 5, e = 2, k = 2"},
    .ranges = {{"limit", {0.5, 4}}, {"weights", {0, 1}}},
    .not_extreme = {{"*", "rows become bytes, which hold neither NaN nor infinities"}},
};
TEST(FusedMoeInt8Packed, MatchesItsReference) { CheckAll(kFusedMoeInt8Packed); }

// Whole numbers, so small that every step is exact: swiglu with alpha 0 gives g * u / 2.
Call Layer(DType dtype, std::int64_t t, std::int64_t d, std::int64_t f, std::int64_t e,
           std::int64_t k) {
  Call call("fused_moe");
  Array x(dtype, {t, d}), w13(dtype, {e, 2 * f, d}), w2(dtype, {e, d, f}), b13(dtype, {e, 2 * f}),
      b2(dtype, {e, d}), weights(DType::kF32, {t, k}), ids(DType::kI64, {t, k});
  const auto fill = [](Array& a, std::int64_t step, std::int64_t modulus, std::int64_t zero) {
    for (std::int64_t i = 0; i < a.size(); ++i) a.Set(i, double(i * step % modulus - zero));
  };
  fill(x, 7, 3, 1), fill(b13, 5, 3, 1), fill(b2, 3, 7, 3), fill(weights, 1, 3, 0);
  for (std::int64_t i = 0; i < w13.size(); ++i) w13.Set(i, i * 11 % 13 == 0 ? 1 : 0);
  for (std::int64_t i = 0; i < w2.size(); ++i) w2.Set(i, i * 5 % 11 == 0 ? 2 : 0);
  for (std::int64_t i = 0; i < ids.size(); ++i) ids.SetInt(i, i * 5 % (e + 1) - 1);
  call.Set("x", x).Set("w13", w13).Set("w2", w2).Set("b13", b13).Set("b2", b2);
  call.Set("weights", weights).Set("ids", ids).Set("activation", "swiglu").Set("alpha", 0.0);
  return call;
}
Call Packed(const Call& plain) {
  Call call("fused_moe_packed");
  for (const char* name : {"x", "b13", "b2", "weights", "ids"}) call.Set(name, plain.array(name));
  for (const char* name :
       {"activation", "alpha", "beta", "order", "apply_router_weight_on_input"}) {
    call.Set(name, plain.argument(name));
  }
  for (const char* name : {"w13", "w2"}) {
    call.Set(name, Call("pack_weight").Set("weight", plain.array(name)).Run()["packed"]);
  }
  return call.Set("features", plain.array("w2").dim(2));
}
void ExpectExact(Call call) {
  const Array exact = call.Exact()["y"];
  Call packed = Packed(call);
  for (Call* each : {&call, &packed}) {
    for (const auto& [kernel, results] : each->RunEveryKernel()) {
      const Array& y = results.find("y")->second;
      for (std::int64_t i = 0; i < y.size(); ++i) {
        ASSERT_EQ(y.Get(i), exact.Get(i)) << each->op().name << " " << kernel << " " << i;
      }
    }
  }
}

TEST(FusedMoe, IsExactWhereEveryStepIs) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const std::int64_t t : {1, 5, 90}) {
      for (const char* order : {"halves", "interleaved"}) {
        for (const bool is_scaled : {false, true}) {
          Call call = Layer(dtype, t, 37, 35, 3, 2);
          call.Set("order", order).Set("apply_router_weight_on_input", is_scaled);
          ExpectExact(call.Set("beta", 1.0));
        }
      }
    }
  }
}

TEST(FusedMoe, TakesMorePairsThanItComputesAtATime) {
  ExpectExact(Layer(DType::kF32, 4500, 7, 4, 2, 1));
  ExpectExact(Layer(DType::kBF16, 1500, 7, 4, 5, 4));
}

TEST(FusedMoe, RoundsBetweenTheProducts) {
  Call call("fused_moe");  // gate 257 * up 1 / 2 in bf16: 128.5 is 128 (a tie to even)
  call.Set("x", Array(DType::kBF16, {1, 2}, {256, 1}));
  call.Set("w13", Array(DType::kBF16, {1, 2, 2}, {1, 1, 0, 1}));
  call.Set("w2", Array(DType::kBF16, {1, 2, 1}, {1, 1})).Set("activation", "swiglu");
  call.Set("b2", Array(DType::kBF16, {1, 2}, {-128, 0})).Set("alpha", 0.0);
  call.Set("weights", Array(DType::kF32, {1, 1}, {1})).Set("ids", Array(DType::kI32, {1, 1}, {0}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kBF16, {1, 2}, {0, 128})) << kernel;
  }
}

TEST(FusedMoe, GivesZerosToATokenWithoutExpertsAndCountsOneThatIsChosenTwice) {
  Call call = Layer(DType::kF32, 3, 4, 2, 2, 2);
  call.Set("ids", Array(DType::kI32, {3, 2}, {-1, -1, 1, 1, 1, -1}));
  call.Set("weights", Array(DType::kF32, {3, 2}, {1, 1, 1, 1, 2, 1}));
  for (const char* name : {"x", "b13"}) {
    Array& a = call.array(name);
    for (std::int64_t i = 0; i < a.size(); ++i) a.Set(i, 1);
  }
  Call packed = Packed(call);
  for (Call* each : {&call, &packed}) {
    for (const auto& [kernel, results] : each->RunEveryKernel()) {
      const Array& y = results.find("y")->second;
      for (std::int64_t j = 0; j < 4; ++j) {
        EXPECT_EQ(y.Get({0, j}), 0) << kernel;
        EXPECT_EQ(y.Get({1, j}), y.Get({2, j})) << kernel;
        EXPECT_NE(y.Get({1, j}), 0) << kernel;
      }
    }
  }
}

TEST(FusedMoe, LimitsSwigluAndNoOther) {
  for (const char* activation : {"silu", "gelu", "gelu_tanh", "swiglu"}) {
    Call call = Layer(DType::kF32, 2, 37, 35, 3, 2);
    call.Set("activation", activation);
    const auto without = call.RunEveryKernel();
    call.Set("limit", 0.25).Set("alpha", 2.0).Set("beta", 3.0);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      const bool same = results.find("y")->second == without.find(kernel)->second.find("y")->second;
      EXPECT_EQ(same, std::string_view(activation) != "swiglu") << kernel << " " << activation;
    }
  }
}

TEST(FusedMoe, KeepsNaNOfAWeightOfTheRouterInItsRow) {
  Call call = Layer(DType::kF32, 3, 5, 4, 2, 2);
  call.Set("ids", Array(DType::kI32, {3, 2}, {0, 1, 0, 1, 0, 1}));
  call.array("weights").Set({1, 0}, NAN);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    for (std::int64_t i = 0; i < 15; ++i) {
      EXPECT_EQ(std::isnan(results.find("y")->second.Get(i)), i / 5 == 1) << kernel << " " << i;
    }
  }
}

TEST(FusedMoe, DoesNotLookAtExpertsThatNobodyChose) {
  Call call = Layer(DType::kF32, 2, 5, 4, 3, 1);
  call.Set("ids", Array(DType::kI32, {2, 1}, {0, 2}));
  const auto before = call.RunEveryKernel();
  for (const char* name : {"w13", "w2", "b13", "b2"}) {
    Array& a = call.array(name);
    for (std::int64_t i = a.size() / 3; i < a.size() / 3 * 2; ++i) a.Set(i, NAN);
  }
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, before.find(kernel)->second.find("y")->second) << kernel;
  }
}

TEST(FusedMoeInt8Packed, GivesWhatFusedMoeInt8Gives) {
  for (const char* order : {"halves", "interleaved"}) {
    const Call floats = Layer(DType::kBF16, 60, 37, 35, 3, 2);
    Call plain("fused_moe_int8"), packed("fused_moe_int8_packed");
    Array scale13(DType::kF32, {3, 70}), scale2(DType::kF32, {3, 37});
    for (std::int64_t i = 0; i < scale13.size(); ++i) scale13.Set(i, 0.01 * double(1 + i % 7));
    for (std::int64_t i = 0; i < scale2.size(); ++i) scale2.Set(i, 0.02 * double(1 + i % 5));
    for (Call* call : {&plain, &packed}) {
      for (const char* name : {"x", "weights", "ids", "b13", "b2"}) {
        call->Set(name, floats.array(name));
      }
      call->Set("w13_scale", scale13).Set("w2_scale", scale2).Set("order", order);
    }
    for (const char* name : {"w13", "w2"}) {
      const Array& from = floats.array(name);
      Array bytes(DType::kI8, {3, from.dim(1), from.dim(2)});
      for (std::int64_t i = 0; i < bytes.size(); ++i) bytes.SetInt(i, i * 37 % 256 - 128);
      plain.Set(name, bytes);
      packed.Set(name, Call("pack_weight_int8").Set("weight", bytes).Run()["packed"]);
    }
    packed.Set("features", 35);
    for (const auto& [kernel, results] : packed.RunEveryKernel()) {
      EXPECT_EQ(results.find("y")->second, plain.Run(kernel)["y"]) << kernel;
    }
  }
}

TEST(FusedMoe, RefusesAnExpertThatIsNotThere) {
  Call call = Layer(DType::kF32, 2, 5, 4, 3, 2);
  call.Set("ids", Array(DType::kI32, {2, 2}, {0, -1, -7, 3}));
  const std::string text = call.Refusal();
  EXPECT_EQ(text.rfind("fused_moe: ids[1, 1] is 3, but must be less than 3", 0), 0u) << text;
}

TEST(FusedMoe, RefusesALimitThatIsNotPositive) {
  EXPECT_EQ(Layer(DType::kF32, 2, 5, 4, 3, 2).Set("limit", 0.0).Refusal(),
            "fused_moe: limit > 0 must hold, but limit is 0.0.");
}

TEST(FusedMoePacked, RefusesAPackedWeightOfAnotherWidth) {
  EXPECT_EQ(Packed(Layer(DType::kF32, 2, 5, 4, 3, 2)).Set("features", 6).Remove("b13").Refusal(),
            "fused_moe_packed: f2 == ceil_div(features, 2) must hold, but features is 6, f2 is 2 "
            "(w2 is f32[3, 1, 2, 32, 2]).");
}

}  // namespace
}  // namespace anyop::optest::fused_moe_test
