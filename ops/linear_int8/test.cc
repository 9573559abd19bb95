// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_int8/linear_int8.h"
#include "optest/gtest/sizes.h"
#include "optest/optest.h"

#include <cmath>
#include <map>
#include <string>

namespace anyop::optest::linear_int8_test {
namespace {

// 4u of the product, 2u of the sum, one rounding.
Allowed OfEpilogue(const Call& call) {
  const Array bias = call.given("bias") ? call.array("bias") : Array(DType::kF32, {1}, {0});
  return [bias](const Element& e) {
    const double b = bias.size() ? std::fabs(bias.Get(e.index % bias.size())) : 0;
    return 0.51 * e.ulp() + 4 * kU * (std::fabs(e.exact) + b) + 2 * kU * std::fabs(e.exact);
  };
}

const OpTest kLinearInt8{
    .op = "linear_int8",
    .tolerance = OfEpilogue,
    .row_invariant = true,
    .sizes = {"rows = 1, n = 960, k = 576", "rows = 16, n = 100, k = 576",
              "rows = 7, n = 33, k = 97", "rows = 13, n = 65, k = 130", "rows = 70, n = 40, k = 33",
              "rows = 520, n = 32, k = 5", "rows = 17, n = 70, k = 1031"},
};
TEST(LinearInt8, MatchesItsReference) { CheckAll(kLinearInt8); }

const OpTest kLinearInt8Quantized{
    .op = "linear_int8_quantized",
    .tolerance = OfEpilogue,
    .row_invariant = true,
    .sizes = {"rows = 1, n = 960, k = 576", "rows = 16, n = 100, k = 576",
              "rows = 7, n = 33, k = 97", "rows = 13, n = 65, k = 130", "rows = 5, n = 3, k = 0",
              "rows = 20, n = 3, k = 0", "rows = 520, n = 32, k = 5"},
};
TEST(LinearInt8Quantized, MatchesItsReference) { CheckAll(kLinearInt8Quantized); }

const OpTest kLinearInt8Packed{
    .op = "linear_int8_packed",
    .tolerance = OfEpilogue,
    .row_invariant = true,
    .sizes = {"rows = 1, k = 576, k4 = 144, features = 960, n32 = 30",
              "rows = 16, k = 576, k4 = 144, features = 100, n32 = 4",
              "rows = 7, k = 97, k4 = 25, features = 33, n32 = 2",
              "rows = 13, k = 130, k4 = 33, features = 65, n32 = 3",
              "rows = 70, k = 33, k4 = 9, features = 40, n32 = 2",
              "rows = 520, k = 5, k4 = 2, features = 32, n32 = 1"},
};
TEST(LinearInt8Packed, MatchesItsReference) { CheckAll(kLinearInt8Packed); }

const OpTest kLinearInt8QuantizedPacked{
    .op = "linear_int8_quantized_packed",
    .tolerance = OfEpilogue,
    .row_invariant = true,
    .sizes = {"rows = 1, k = 576, k4 = 144, features = 960, n32 = 30",
              "rows = 16, k = 576, k4 = 144, features = 100, n32 = 4",
              "rows = 7, k = 97, k4 = 25, features = 33, n32 = 2",
              "rows = 5, k = 0, k4 = 0, features = 3, n32 = 1",
              "rows = 520, k = 5, k4 = 2, features = 32, n32 = 1"},
};
TEST(LinearInt8QuantizedPacked, MatchesItsReference) { CheckAll(kLinearInt8QuantizedPacked); }

const OpTest kSumWeightInt8{
    .op = "sum_weight_int8",
    .sizes = {"n = 100, k = 576", "n = 33, k = 131"},
};
TEST(SumWeightInt8, MatchesItsReference) { CheckAll(kSumWeightInt8); }

const OpTest kPackWeightInt8{
    .op = "pack_weight_int8",
    .sizes = {"n = 100, k = 576", "n = 64, k = 1030", "n = 33, k = 131"},
};
TEST(PackWeightInt8, MatchesItsReference) { CheckAll(kPackWeightInt8); }

Array Bytes(std::int64_t rows, std::int64_t k, int seed) {
  Array a(DType::kI8, {rows, k});
  for (std::int64_t i = 0; i < a.size(); ++i) a.SetInt(i, (i * seed + i / k * 37) % 256 - 128);
  return a;
}
Array Pack(const Array& weight) {
  Call pack("pack_weight_int8");
  return pack.Set("weight", weight).Run()["packed"];
}
Array Ones(std::int64_t n) { return Array(DType::kF32, {n}, {1}); }

// Sums at both ends of i32, where 16-bit sums and signed offsets give up.
TEST(LinearInt8Quantized, KeepsTheLargestSumsExact) {
  const std::int64_t k = 131071;
  for (const int x : {-128, 127}) {
    for (const int w : {-128, 127}) {
      for (const std::int64_t rows : {1, 9}) {
        Call call("linear_int8_quantized");
        call.Set("x", Array(DType::kI8, {rows, k}, {double(x)}));
        call.Set("weight", Array(DType::kI8, {3, k}, {double(w)}));
        call.Set("x_scale", Array(DType::kF32, {rows, 1}, {1})).Set("weight_scale", Ones(3));
        call.Set("to", DType::kF32);
        for (const auto& [kernel, results] : call.RunEveryKernel()) {
          const Array& y = results.find("y")->second;
          for (std::int64_t i = 0; i < y.size(); ++i) {
            EXPECT_EQ(y.Get(i), double(float(k * x * w))) << kernel << " " << x << " " << w;
          }
        }
      }
    }
  }
}

TEST(LinearInt8Packed, KeepsTheLargestSumsExact) {
  const std::int64_t k = 131071;
  const Array packed = Pack(Array(DType::kI8, {3, k}, {-128}));
  for (const int sign : {1, -1}) {
    Call call("linear_int8_packed");
    call.Set("x", Array(DType::kF32, {9, k}, {sign * 127.0})).Set("packed", packed);
    call.Set("features", 3).Set("weight_scale", Ones(3));
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_EQ(results.find("y")->second.Get(26), double(float(-128 * 127 * k * sign))) << kernel;
    }
  }
}

// A layer of bytes with a zero point of each row, or one for all; scales are 1.
struct ZeroCase {
  Array x, weight, zero;
  Array scale() const {
    return zero.shape().size() > 1 ? Array(DType::kF32, {x.shape()[0], 1}, {1}) : Ones(1);
  }
  // f(kernel, y) of every kernel: of the weight as it is, packed, and packed with its sums.
  template <class F>
  void ForEvery(F&& f) const {
    const std::int64_t n = weight.shape()[0];
    Call plain("linear_int8_quantized"), packed("linear_int8_quantized_packed");
    plain.Set("weight", weight);
    packed.Set("packed", Pack(weight)).Set("features", n);
    for (Call* call : {&plain, &packed}) {
      call->Set("x", x).Set("x_scale", scale()).Set("weight_scale", Ones(n));
      call->Set("to", DType::kF32).Set("x_zero", zero);
    }
    Call sum("sum_weight_int8");
    Call with_sums = packed;
    with_sums.Set("weight_sum", sum.Set("weight", weight).Run()["sum"]);
    for (Call* call : {&plain, &packed, &with_sums}) {
      for (const auto& [kernel, results] : call->RunEveryKernel()) {
        f(call->op().name + " " + kernel, results.find("y")->second);
      }
    }
  }
};

TEST(LinearInt8Quantized, SubtractsZeroPointsAtTheEndsExactly) {
  const std::int64_t k = 65535, zeros[] = {-128, 127, 128, -2147483648LL, 2147483647LL};
  for (const int x : {-128, 127}) {
    for (const int w : {-128, 127}) {
      for (const std::int64_t rows : {5, 17}) {
        Array zero(DType::kI32, {rows, 1});
        for (std::int64_t i = 0; i < rows; ++i) zero.SetInt(i, zeros[i % 5]);
        const ZeroCase layer{Array(DType::kI8, {rows, k}, {double(x)}),
                             Array(DType::kI8, {3, k}, {double(w)}), zero};
        layer.ForEvery([&](const std::string& how, const Array& y) {
          for (std::int64_t i = 0; i < y.size(); ++i) {
            ASSERT_EQ(y.Get(i), double(float(k * (x - zeros[i / 3 % 5]) * w))) << how << " " << i;
          }
        });
      }
    }
  }
}

// The product alone is odd and beyond 2^24, which f32 has not; less the zero point's part it is -1.
TEST(LinearInt8Quantized, RoundsAfterItHasSubtracted) {
  const std::int64_t k = 1050;
  Array x(DType::kI8, {1, k}, {127}), weight(DType::kI8, {1, k}, {127});
  x.SetInt(0, 126), weight.SetInt(0, 1);
  const ZeroCase layer{x, weight, Array(DType::kI32, {1}, {127})};
  layer.ForEvery([](const std::string& how, const Array& y) { EXPECT_EQ(y.Get(0), -1) << how; });
}

TEST(LinearInt8Quantized, TakesOneScaleAndZeroPointForAllRows) {
  for (const std::int64_t rows : {1, 5, 40}) {
    Array each(DType::kI32, {rows, 1}, {-7});
    ZeroCase layer{Bytes(rows, 70, 13), Bytes(35, 70, 89), each};
    std::map<std::string, Array> wanted;
    layer.ForEvery([&](const std::string& how, const Array& y) { wanted.emplace(how, y); });
    layer.zero = Array(DType::kI32, {1}, {-7});
    layer.ForEvery([&](const std::string& how, const Array& y) {
      EXPECT_EQ(y, wanted.find(how)->second) << how;
      EXPECT_EQ(y, wanted.begin()->second) << how;
    });
  }
}

TEST(LinearInt8Quantized, GivesTheBiasWhereTheScaleIsZero) {
  Call call("linear_int8_quantized");
  call.Set("x", Bytes(2, 37, 5)).Set("x_scale", Array(DType::kF32, {2, 1}, {0, 1}));
  call.Set("weight", Bytes(3, 37, 11)).Set("weight_scale", Ones(3)).Set("to", DType::kF32);
  call.Set("bias", Array(DType::kF32, {3}, {1, 2, 3}));
  call.Set("x_zero", Array(DType::kI32, {2, 1}, {5, 5}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& y = results.find("y")->second;
    for (std::int64_t j = 0; j < 3; ++j) EXPECT_EQ(y.Get(j), double(j + 1)) << kernel;
    EXPECT_NE(y.Get(3), 1) << kernel;
  }
}

TEST(LinearInt8Quantized, RefusesMoreTermsThanFitWithAZeroPoint) {
  Call call("linear_int8_quantized");
  call.Set("x", Array(DType::kI8, {1, 65536})).Set("weight", Array(DType::kI8, {1, 65536}));
  call.Set("x_scale", Array(DType::kF32, {1, 1}, {1})).Set("weight_scale", Ones(1));
  call.Set("to", DType::kF32);
  EXPECT_NO_THROW(call.Run());
  call.Set("x_zero", Array(DType::kI32, {1, 1}, {0}));
  EXPECT_EQ(call.Refusal(),
            "linear_int8_quantized: k <= 65535 or not given(x_zero) must hold, but x_zero is "
            "i32[1, 1], k is 65536 (x is i8[1, 65536]).");
}

// Every number of rows from one block to several, against one row at a time, bit for bit; the two
// layouts of the weight and quantizing apart give the same bits too.
TEST(LinearInt8, GivesTheSameBitsHoweverItIsAskedFor) {
  const std::int64_t n = 75, k = 203;
  const Array weight = Bytes(n, k, 89), packed = Pack(weight);
  Array weight_scale(DType::kF32, {n}), bias(DType::kBF16, {n});
  for (std::int64_t j = 0; j < n; ++j) weight_scale.Set(j, 0.01 + 0.001 * double(j));
  for (std::int64_t j = 0; j < n; ++j) bias.Set(j, std::cos(double(j)));
  Array expected(DType::kBF16, {41, n}), all(DType::kBF16, {41, k});
  for (std::int64_t i = 0; i < all.size(); ++i)
    all.Set(i, std::sin(double(i)) * double(1 + i / k % 5));
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 7, 8, 9, 11, 15, 16, 17, 24, 33, 41}) {
    Array x(DType::kBF16, {rows, k});
    for (std::int64_t i = 0; i < x.size(); ++i) x.Set(i, all.Get((41 - rows) * k + i));
    Call plain("linear_int8"), from_packed("linear_int8_packed"), apart("linear_int8_quantized");
    plain.Set("x", x).Set("weight", weight).Set("weight_scale", weight_scale).Set("bias", bias);
    from_packed.Set("x", x).Set("packed", packed).Set("features", n);
    from_packed.Set("weight_scale", weight_scale).Set("bias", bias);
    Call quantize("quantize_int8_dynamic");
    const Results q = quantize.Set("x", x).Run();
    apart.Set("x", q.find("q")->second).Set("x_scale", q.find("scale")->second);
    apart.Set("weight", weight).Set("weight_scale", weight_scale).Set("bias", bias);
    apart.Set("to", DType::kBF16);
    const Array y = plain.Run("cpu_portable")["y"];
    // The last row is the same in all of them.
    for (std::int64_t j = 0; j < n; ++j) {
      const double last = y.Get((rows - 1) * n + j);
      if (rows == 1) expected.Set(j, last);
      ASSERT_EQ(last, expected.Get(j)) << rows << " rows, column " << j;
    }
    for (Call* call : {&plain, &from_packed, &apart}) {
      for (const auto& [kernel, results] : call->RunEveryKernel()) {
        ASSERT_EQ(results.find("y")->second, y) << call->op().name << " " << kernel << " " << rows;
      }
    }
  }
}

TEST(LinearInt8, GivesTheBiasForARowOfZerosOrNaN) {
  for (const double odd : {0.0, std::nan("")}) {
    Call call("linear_int8");
    call.Set("x", Array(DType::kF32, {10, 37}, {odd})).Set("weight", Bytes(3, 37, 11));
    call.Set("weight_scale", Ones(3)).Set("bias", Array(DType::kF32, {3}, {1, 2, 3}));
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      for (std::int64_t i = 0; i < 30; ++i) {
        EXPECT_EQ(results.find("y")->second.Get(i), double(i % 3 + 1)) << kernel;
      }
    }
  }
}

TEST(LinearInt8, GivesNaNForARowWithAnInfinityAndNoOther) {
  for (const std::int64_t rows : {3, 11}) {
    Call call("linear_int8");
    Array x(DType::kF32, {rows, 37}, {1});
    x.Set({1, 36}, HUGE_VAL);
    call.Set("x", x).Set("weight", Bytes(35, 37, 11)).Set("weight_scale", Ones(35));
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      for (std::int64_t i = 0; i < rows * 35; ++i) {
        EXPECT_EQ(std::isnan(results.find("y")->second.Get(i)), i / 35 == 1) << kernel << " " << i;
      }
    }
  }
}

TEST(LinearInt8, RefusesMoreTermsThanFit) {
  Call call("linear_int8");
  call.Set("x", Array(DType::kBF16, {1, 131072})).Set("weight", Array(DType::kI8, {1, 131072}));
  call.Set("weight_scale", Ones(1));
  EXPECT_EQ(call.Refusal(),
            "linear_int8: k <= 131071 must hold, but k is 131072 (x is bf16[1, 131072]).");
}

TEST(LinearInt8Packed, RefusesAPackedWeightOfAnotherWidth) {
  Call call("linear_int8_packed");
  call.Set("x", Array(DType::kF32, {2, 9})).Set("packed", Array(DType::kI8, {1, 2, 32, 4}));
  call.Set("features", 32).Set("weight_scale", Ones(32));
  EXPECT_EQ(call.Refusal(),
            "linear_int8_packed: k4 == ceil_div(k, 4) must hold, but k is 9 (x is f32[2, 9]), k4 "
            "is 2 (packed is i8[1, 2, 32, 4]).");
}

TEST(LinearInt8, HasAWorkspaceOfOneSizeInNamesAndInNumbers) {
  ExpectTheSameBytes<ops::SizeText>([](const auto& s) {
    using N = std::decay_t<decltype(s[0])>;
    return ops::BytesWorkspace<ops::WideBytesMath<ops::I8x2>, N>(s[0], s[1], s[2], s[3], true);
  });
}

}  // namespace
}  // namespace anyop::optest::linear_int8_test
