// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_u4/kernel.h"
#include "optest/gtest/sizes.h"
#include "optest/optest.h"

#include <cmath>
#include <limits>
#include <memory>

#include "anyop/scope.h"

namespace anyop::optest::linear_u4_test {
namespace {

// Random zero points become those that a checkpoint has, 0 to 16, and scales become moderate.
void MakeNumbersModerate(Call& call) {
  if (call.given("zero") && call.array("zero").dim(-1) == call.array("scale").dim(-1)) {
    Array& zero = call.array("zero");
    for (std::int64_t i = 0; i < zero.size(); ++i) zero.Set(i, int(zero.Get(i)) % 17);
  }
}

// What the sums of the products are made of: |x|, or the most that its bytes stand for, times
// |q - z| * |s|.
Array AbsoluteTerms(const Call& call) {
  const Array& x = call.array("x");
  const Array& scale = call.array("scale");
  const bool is_packed = call.op().contract->param("packed") >= 0;
  const std::int64_t k = x.dim(-1);
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + 1 < x.shape().size(); ++d) rows *= x.shape()[d];
  const std::int64_t n = scale.dim(is_packed ? 1 : 0), groups = scale.dim(is_packed ? 0 : 1);
  Array terms(DType::kF32, {rows, n});
  const auto half = [](double byte, std::int64_t i) {
    return i % 2 ? int(byte) >> 4 : int(byte) & 15;
  };
  for (std::int64_t i = 0; i < rows; ++i) {
    double largest = 0;
    for (std::int64_t l = 0; l < k; ++l) largest = std::fmax(largest, std::fabs(x.Get(i * k + l)));
    const double step = call.word("input") == "int8" ? largest / 254 : 0;
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = call.given("bias") ? std::fabs(call.array("bias").Get(j)) : 0;
      for (std::int64_t l = 0; l < k; ++l) {
        const std::int64_t g = call.given("group_index")
                                   ? std::int64_t(call.array("group_index").Get(l))
                                   : l / (k / groups);
        if (g < 0) continue;
        const int q = is_packed
                          ? half(call.array("packed").Get((j / 16 * k + l) * 8 + j % 16 / 2), j)
                          : half(call.array("weight").Get(j * (k / 2) + l / 2), l);
        int zero = 8;
        if (call.given("zero")) {
          const Array& z = call.array("zero");
          const bool has_bytes = !is_packed || z.dim(-1) == n;
          zero = !has_bytes ? half(z.Get(g * z.dim(-1) + j / 2), j)
                            : int(z.Get(is_packed ? g * n + j : j * groups + g));
        }
        const double s = scale.Get(is_packed ? g * n + j : j * groups + g);
        sum += (std::fabs(x.Get(i * k + l)) + step) * std::fabs((q - zero) * s);
      }
      terms.Set(i * n + j, sum);
    }
  }
  return terms;
}

// D(k), or D(g) where the products of a group are added exactly; 2u of a weight.
Allowed OfGroups(const Call& call) {
  const auto terms = std::make_shared<Array>(AbsoluteTerms(call));
  const bool is_packed = call.op().contract->param("packed") >= 0;
  const double k = call.word("input") == "int8" ? double(call.array("scale").dim(is_packed ? 0 : 1))
                                                : double(call.array("x").dim(-1));
  // Sums of a group come before its scale, and overflow before their products with it do.
  double largest = 0;
  for (std::int64_t i = 0; i < call.array("x").size(); ++i) {
    const double v = std::fabs(call.array("x").Get(i));
    if (std::isfinite(v)) largest = std::fmax(largest, v);
  }
  const bool overflows = largest * 256 * (k + 1) > Largest(DType::kF32) / 4;
  return [=](const Element& e) {
    if (overflows) return 1e300;
    return 0.51 * e.ulp() + (6 + 2 * std::sqrt(k)) * kU * terms->Get(e.index) + k * 0x1p-126 * 4;
  };
}

const OpTest kLinearU4{
    .op = "linear_u4",
    .tolerance = OfGroups,
    .sizes = {"rows = 1, n = 100, k = 128, g = 4", "rows = 7, n = 33, k = 96, g = 3",
              "rows = 130, n = 17, k = 8, g = 2", "rows = 17, n = 3, k = 1030, g = 1",
              "rows = 3, n = 5, k = 0, g = 1", "rows = 3, n = 5, k = 20, g = 20"},
    .not_extreme = {{"scale", "an infinity times q - z = 0 depends on what is added first"},
                    {"x", "of NaN 'int8' makes numbers"}},
    .prepare = MakeNumbersModerate,
};
TEST(LinearU4, MatchesItsReference) { CheckAll(kLinearU4); }

const OpTest kLinearU4Packed{
    .op = "linear_u4_packed",
    .tolerance = OfGroups,
    .sizes = {"rows = 1, features = 100, n16 = 7, k = 128, g = 4, zn = 50",
              "rows = 7, features = 33, n16 = 3, k = 96, g = 3, zn = 33",
              "rows = 7, features = 17, n16 = 2, k = 35, g = 1, zn = 9",
              "rows = 130, features = 17, n16 = 2, k = 8, g = 2, zn = 17",
              "rows = 17, features = 3, n16 = 1, k = 1030, g = 1, zn = 2",
              "rows = 3, features = 5, n16 = 1, k = 0, g = 1, zn = 5"},
    .not_extreme = {{"scale", "an infinity times q - z = 0 depends on what is added first"},
                    {"x", "of NaN 'int8' makes numbers"}},
    .prepare = MakeNumbersModerate,
};
TEST(LinearU4Packed, MatchesItsReference) { CheckAll(kLinearU4Packed); }

const OpTest kRowsU4{.op = "rows_u4",
                     .sizes = {"k8 = 12, n = 70", "k = 130, n8 = 9", "n16 = 5, k = 132"}};
TEST(RowsU4, MatchesItsReference) { CheckAll(kRowsU4); }

const OpTest kZerosU4{.op = "zeros_u4", .sizes = {"g = 12, n8 = 9"}};
TEST(ZerosU4, MatchesItsReference) { CheckAll(kZerosU4); }

const OpTest kPackU4{.op = "pack_u4", .sizes = {"n = 100, k2 = 70", "n = 32, k2 = 33"}};
TEST(PackU4, MatchesItsReference) { CheckAll(kPackU4); }

const OpTest kPackGroupsU4{.op = "pack_groups_u4", .sizes = {"n = 100, g = 7"}};
TEST(PackGroupsU4, MatchesItsReference) { CheckAll(kPackGroupsU4); }

// q[j, l] of n rows of k elements, in some order that no layout has.
int QuantAt(std::int64_t j, std::int64_t l) { return int((j * 7 + l * 5 + j * l) % 16); }
Array RowsOf(std::int64_t n, std::int64_t k) {
  Array rows(DType::kU8, {n, k / 2});
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    const std::int64_t j = i / (k / 2), l = i % (k / 2) * 2;
    rows.Set(i, QuantAt(j, l) | QuantAt(j, l + 1) << 4);
  }
  return rows;
}
// Sines of the elements' numbers.
Array Waves(DType type, std::vector<std::int64_t> shape) {
  Array a(type, std::move(shape));
  for (std::int64_t i = 0; i < a.size(); ++i) a.Set(i, std::sin(double(i) + 1));
  return a;
}
Array Zeros(std::int64_t n, std::int64_t groups) {
  Array zero(DType::kU8, {n, groups});
  for (std::int64_t i = 0; i < zero.size(); ++i) zero.Set(i, double(i * 5 % 17));
  return zero;
}
Call Rows(std::int64_t rows, std::int64_t n, std::int64_t k, std::int64_t groups) {
  Call call("linear_u4");
  call.Set("x", Waves(DType::kF32, {rows, k})).Set("weight", RowsOf(n, k));
  call.Set("scale", Waves(DType::kF32, {n, groups})).Set("zero", Zeros(n, groups));
  return call;
}
Call Packed(const Call& rows) {
  Call call("linear_u4_packed"), pack("pack_u4"), scale("pack_groups_u4"), zero("pack_groups_u4");
  call.Set("x", rows.array("x")).Set("features", rows.array("scale").dim(0));
  call.Set("packed", pack.Set("weight", rows.array("weight")).Run()["packed"]);
  call.Set("scale", scale.Set("numbers", rows.array("scale")).Run()["packed"]);
  call.Set("zero", zero.Set("numbers", rows.array("zero")).Run()["packed"]);
  return call;
}

TEST(LinearU4Packed, GivesTheBitsOfTheRows) {
  for (const char* input : {"exact", "int8"}) {
    for (const std::int64_t rows : {1, 3, 16, 17, 40}) {
      for (const std::int64_t groups : {1, 6, 24}) {
        Call plain = Rows(rows, 53, 144, groups);
        Call packed = Packed(plain);
        plain.Set("input", input);
        packed.Set("input", input);
        EXPECT_EQ(packed.Run()["y"], plain.Run()["y"]) << input << " " << rows << " " << groups;
      }
    }
  }
}

// Zero points of 4 bits are those of a byte.
TEST(LinearU4Packed, TakesZerosOfFourBits) {
  for (const std::int64_t n : {53, 64}) {
    Call bytes = Packed(Rows(2, n, 96, 3));
    Array zero = bytes.array("zero"), halves(DType::kU8, {3, (n + 1) / 2});
    for (std::int64_t i = 0; i < zero.size(); ++i) {
      zero.Set(i, int(zero.Get(i)) % 16);
      const std::int64_t at = i / n * ((n + 1) / 2) + i % n / 2;
      halves.Set(at, int(halves.Get(at)) | int(zero.Get(i)) << i % n % 2 * 4);
    }
    bytes.Set("zero", zero);
    const Array expected = bytes.Run()["y"];
    EXPECT_EQ(bytes.Set("zero", halves).Run()["y"], expected);
  }
}

// One element of 1 in x picks a column of the weight: what each layout means, by hand.
TEST(RowsU4, ReadsTheLayoutsOfCheckpoints) {
  const std::int64_t n = 16, k = 16;
  constexpr int kAwq[] = {0, 4, 1, 5, 2, 6, 3, 7};
  struct Case {
    const char* layout;
    std::vector<std::int64_t> shape;
    std::int64_t (*word)(std::int64_t j, std::int64_t l);
    int (*place)(std::int64_t j, std::int64_t l);
  };
  static const int* awq = kAwq;
  const Case cases[] = {
      {"gptq",
       {k / 8, n},
       [](std::int64_t j, std::int64_t l) { return l / 8 * 16 + j; },
       [](std::int64_t, std::int64_t l) { return int(l % 8); }},
      {"awq",
       {k, n / 8},
       [](std::int64_t j, std::int64_t l) { return l * 2 + j / 8; },
       [](std::int64_t j, std::int64_t) { return awq[j % 8]; }},
      {"rows",
       {n, k / 8},
       [](std::int64_t j, std::int64_t l) { return j * 2 + l / 8; },
       [](std::int64_t, std::int64_t l) { return int(l % 8); }},
      {"blocks16",
       {n / 16, 2 * k},
       [](std::int64_t j, std::int64_t l) { return 2 * l + j / 8; },
       [](std::int64_t j, std::int64_t) { return int(j % 8); }},
  };
  for (const Case& c : cases) {
    Array words(DType::kI32, c.shape, {0});
    auto* data = words.data<std::uint32_t>();
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t l = 0; l < k; ++l) {
        data[c.word(j, l)] |= std::uint32_t(QuantAt(j, l)) << 4 * c.place(j, l);
      }
    }
    Call call("rows_u4");
    EXPECT_EQ(call.Set("words", words).Set("layout", c.layout).Run()["weight"], RowsOf(n, k))
        << c.layout;
  }
}

TEST(ZerosU4, KeepsASixteen) {
  Call call("zeros_u4");
  const Array zero =
      call.Set("words", Array(DType::kI32, {2, 1}, {-1})).Set("layout", "gptq_v1").Run()["zero"];
  for (std::int64_t i = 0; i < zero.size(); ++i) EXPECT_EQ(zero.Get(i), 16) << i;
}

// Neighbouring groups, named one by one, and the same elements in another order.
TEST(LinearU4, TakesGroupsThatAreNoNeighbours) {
  const std::int64_t k = 96, n = 40;
  for (const std::int64_t rows : {2, 20}) {
    for (const bool is_packed : {false, true}) {
      Call rows_call = Rows(rows, n, k, 3);
      Call plain = is_packed ? Packed(rows_call) : rows_call;
      const Array expected = plain.Exact()["y"];
      Array x = rows_call.array("x"), index(DType::kI32, {k}), weight = rows_call.array("weight");
      for (std::int64_t l = 0; l < k; ++l) {  // element l becomes 95 - l
        index.Set(k - 1 - l, double(l / 32));
        for (std::int64_t i = 0; i < rows; ++i) {
          x.Set(i * k + k - 1 - l, rows_call.array("x").Get(i * k + l));
        }
        for (std::int64_t j = 0; j < n && l % 2; ++j) {
          weight.Set({j, (k - 1 - l) / 2}, QuantAt(j, l) | QuantAt(j, l - 1) << 4);
        }
      }
      Call turned = Rows(rows, n, k, 3);
      turned.Set("x", x).Set("weight", weight);
      if (is_packed) turned = Packed(turned);
      turned.Set("group_index", index);
      const Array terms = AbsoluteTerms(plain);
      for (const auto& [kernel, results] : turned.RunEveryKernel()) {
        const Array& y = results.find("y")->second;
        for (std::int64_t i = 0; i < y.size(); ++i) {
          EXPECT_NEAR(y.Get(i), expected.Get(i), 24 * kU * terms.Get(i)) << kernel << " " << i;
        }
      }
    }
  }
}

TEST(LinearU4, LeavesOutElementsOfNoGroup) {
  for (const std::int64_t rows : {1, 20}) {
    Call call = Rows(rows, 20, 64, 2);
    Array index(DType::kI32, {64}), x = call.array("x");
    for (std::int64_t l = 0; l < 64; ++l) index.Set(l, l % 5 == 3 ? -1 : double(l / 32));
    const auto run = [&] { return call.Set("x", x).Set("group_index", index).RunEveryKernel(); };
    for (std::int64_t i = 0; i < x.size(); ++i) {
      if (i % 64 % 5 == 3) x.Set(i, 0);
    }
    const auto expected = run();
    for (std::int64_t i = 0; i < x.size(); ++i) {
      if (i % 64 % 5 == 3) x.Set(i, std::nan(""));
    }
    EXPECT_EQ(run(), expected) << rows;
  }
}

// The largest elements, zero points and bytes: 16-bit sums and f32 would not hold them.
TEST(LinearU4, KeepsTheSumsOfAGroupExact) {
  const std::int64_t k = 4096;
  for (const int sign : {1, -1}) {
    for (const int q : {0, 15}) {
      for (const std::int64_t rows : {1, 9}) {
        Call call("linear_u4");
        call.Set("x", Array(DType::kF32, {rows, k}, {sign * 127.0}));
        call.Set("weight", Array(DType::kU8, {3, k / 2}, {q * 17.0})).Set("input", "int8");
        call.Set("scale", Array(DType::kF32, {3, 1}, {1}));
        call.Set("zero", Array(DType::kU8, {3, 1}, {255}));
        for (const auto& [kernel, results] : call.RunEveryKernel()) {
          const Array& y = results.find("y")->second;
          const double exact = double(float(127.0 * sign * (q - 255) * double(k)));
          EXPECT_EQ(y.Get(y.size() - 1), exact) << kernel << " " << q << " " << rows;
        }
      }
    }
  }
}

TEST(LinearU4, GivesTheSameBitsForARowAloneAndInABatch) {
  const std::int64_t n = 37, k = 130;
  const auto run = [&](std::int64_t rows, const char* input, bool invariant) {
    Call call = Rows(41, n, k, 5);
    Array x(DType::kF32, {rows, k});
    for (std::int64_t i = 0; i < x.size(); ++i) {
      x.Set(i, call.array("x").Get((41 - rows) * k + i));
    }
    call.Set("x", x).Set("input", input);
    Scope scope;
    scope.batch_invariant(invariant);
    return call.Run()["y"];
  };
  for (const char* input : {"exact", "int8"}) {
    const bool invariant = std::string_view(input) == "exact";
    const Array alone = run(1, input, invariant);
    for (const std::int64_t rows : {2, 5, 8, 16, 17, 41}) {
      const Array y = run(rows, input, invariant);
      for (std::int64_t j = 0; j < n; ++j) {
        EXPECT_EQ(y.Get((rows - 1) * n + j), alone.Get(j)) << input << " " << rows << " " << j;
      }
    }
  }
}

TEST(LinearU4, KeepsNaNInItsRow) {
  for (const char* input : {"exact", "int8"}) {
    for (const std::int64_t rows : {3, 20}) {
      Call call = Rows(rows, 20, 64, 2);
      Array x = call.array("x");
      x.Set({1, 40}, std::nan(""));
      call.Set("x", x).Set("input", input);
      const bool is_exact = std::string_view(input) == "exact";
      for (const auto& [kernel, results] : call.RunEveryKernel()) {
        const Array& y = results.find("y")->second;
        for (std::int64_t i = 0; i < y.size(); ++i) {
          EXPECT_EQ(std::isfinite(y.Get(i)), !is_exact || i / 20 != 1) << kernel << input << i;
        }
      }
    }
  }
}

TEST(LinearU4, RefusesGroupsThatDoNotDivide) {
  Call call = Rows(2, 3, 64, 5);
  EXPECT_EQ(call.Refusal(),
            "linear_u4: k % g == 0 or given(group_index) must hold, but group_index is None, k is "
            "64 (x is f32[2, 64]), g is 5 (scale is f32[3, 5]).");
}

TEST(LinearU4, RefusesAGroupThatIsNotThere) {
  Call call = Rows(2, 3, 64, 2);
  Array index(DType::kI32, {64}, {0});
  index.Set(9, 2);
  EXPECT_EQ(call.Set("group_index", index).Refusal(),
            "linear_u4: group_index[9] is 2, but must be less than 2 (g).");
}

TEST(LinearU4, RefusesBytesOfXWithGroupsThatAreNoNeighbours) {
  Call call = Rows(2, 3, 64, 2);
  call.Set("group_index", Array(DType::kI32, {64}, {0})).Set("input", "int8");
  EXPECT_EQ(call.Refusal(),
            "linear_u4: input == 'exact' or not given(group_index) must hold, but group_index "
            "is i32[64], input is 'int8'.");
}

TEST(LinearU4, HasAWorkspaceOfOneSizeInNamesAndInNumbers) {
  ExpectTheSameBytes<ops::SizeText>([](const auto& s) {
    using N = std::decay_t<decltype(s[0])>;
    return ops::U4Workspace<N>(s[0], s[1], s[2], s[3], s[0]);
  });
}

}  // namespace
}  // namespace anyop::optest::linear_u4_test
