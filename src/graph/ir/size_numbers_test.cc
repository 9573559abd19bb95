// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/size_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/ir/size_text.h"
#include "signature/owned_call.h"
#include "signature/symbolic.h"

namespace anyop::size_numbers_test {
namespace {

const std::string kNames[] = {"n", "m", "k", "i"};  // i: a number that may be below 0

Size Parsed(std::string_view text) {
  SizeParser parser{{text}, [](std::string_view name) {
                      return Size::Symbol(int(std::ranges::find(kNames, name) - kNames));
                    }};
  return parser.Sum();
}

std::string Shown(const Size& size) {
  return Show(size, [](int s) -> const std::string& { return kNames[s]; });
}

// The sizes of a call's first result, "?" for an unknown one, and whether it is sure to be right.
std::string Inferred(const char* signature, const std::vector<std::vector<const char*>>& shapes) {
  const auto c = ParseContract(signature);
  SizeNumbers numbers;
  for (int s = 0; s < 3; ++s) numbers.AddSizeSymbol(s);
  OwnedCall call(*c);
  for (int i = 0; i < int(shapes.size()); ++i) {
    Shape shape;
    for (const char* size : shapes[std::size_t(i)]) shape.push_back(numbers.Bits(Parsed(size)));
    call.SetTensor(i, DType::kF32, shape);
  }
  ResultShape results[kMaxResults];
  std::string error, out;
  if (InferPartial(*c, call.frame(), 0, results, &error, &numbers) < 0) return error;
  for (int k = 0; k < results[0].rank; ++k) {
    const std::int64_t bits = results[0].shape[k];
    Number n = Int(bits);
    if (IsSymbol(bits)) n.known = false, n.symbol = SymbolOf(bits);
    out += (k ? ", " : "") + (bits == -1 ? "?" : Shown(numbers.ToSize(n)));
  }
  EXPECT_TRUE(numbers.requirements.empty());
  return out + (numbers.is_sure() ? "" : " unless refused");
}

std::string Value(const char* expression, const char* a, const char* b) {
  const std::string text =
      std::string("f(a: T[x], b: T[z]) -> (y: T[") + expression + "]) where T in f32";
  return Inferred(text.c_str(), {{a}, {b}});
}

TEST(SizeNumbers, SumsAndProductsArePolynomials) {
  EXPECT_EQ(Inferred("f(a: T[x, y, z]) -> (r: T[x+y+z, x*y*z, 2*x-x])", {{"n", "m + 1", "k"}}),
            "n + m + k + 1, n*m*k + n*k, n");
  EXPECT_EQ(Inferred("f(a: T[x, y]) -> (r: T[size(a), rows(a), rank(a)])", {{"n", "64"}}),
            "64*n, n, 2");
}

TEST(SizeNumbers, DivideExactlyOrByAConstant) {
  EXPECT_EQ(Value("x/2", "4*n", "m"), "2*n");
  EXPECT_EQ(Value("x/2", "4*n + 3", "m"), "2*n + 1");
  EXPECT_EQ(Value("x/2", "4*n - 3", "m"), "2*n - 2");
  EXPECT_EQ(Value("ceil_div(x, 2)", "4*n + 3", "m"), "2*n + 2");
  EXPECT_EQ(Value("x % 4", "4*n*m - 3", "m"), "1");
  EXPECT_EQ(Value("x/2", "n", "m"), "? unless refused");
  EXPECT_EQ(Value("x/z", "n*m + n + m + 1", "m + 1"), "n + 1");
  EXPECT_EQ(Value("ceil_div(x, z)", "2*n*m", "2*m"), "n unless refused");  // m is 0
  EXPECT_EQ(Value("x % z", "n*m*m - 4*n", "m + 2"), "0");
  EXPECT_EQ(Value("x/z", "n*m + 1", "m + 1"), "? unless refused");
}

TEST(SizeNumbers, MinAndMaxWhereTheOrderIsKnown) {
  EXPECT_EQ(Value("min(x, z)", "n", "n + 1"), "n");
  EXPECT_EQ(Value("max(x, z)", "n + m", "n"), "n + m");
  EXPECT_EQ(Value("max(x - 1, 0)", "n + 1", "m"), "n");
  EXPECT_EQ(Value("min(x, 300)", "n", "m"), "? unless refused");
  EXPECT_EQ(Value("max(x, 0)", "n - 1", "m"), "? unless refused");
  EXPECT_EQ(Value("max(x, 0)", "i", "m"), "? unless refused");
}

TEST(SizeNumbers, ConditionsAreProvenRefutedOrLeftOpen) {
  const auto holds = [](const char* condition, const char* a, const char* b) {
    const std::string text =
        std::string("f(a: T[x], b: T[z]) -> (y: T[3]) where T in f32, ") + condition;
    return Inferred(text.c_str(), {{a}, {b}});
  };
  EXPECT_EQ(holds("x >= 1, x > 0, x != 0, not x == 0", "n + 1", "m"), "3");
  EXPECT_EQ(holds("x >= 1", "n", "m"), "3 unless refused");
  EXPECT_EQ(holds("x <= z, z >= x, not x > z, not z < x", "n", "n + m"), "3");
  EXPECT_EQ(holds("x < z", "n", "n + m"), "3 unless refused");
  EXPECT_EQ(holds("x < z", "n", "n"), "x < z must hold.");
  EXPECT_EQ(holds("x == z", "n + m", "n - 1"), "x == z must hold.");
  EXPECT_EQ(holds("x % 64 == 0", "64*n*m", "m"), "3");
  EXPECT_EQ(holds("x % 64 == 0", "32*n", "m"), "3 unless refused");
  EXPECT_EQ(holds("x >= 0", "i", "m"), "3 unless refused");
}

TEST(SizeNumbers, ArgumentsAreSolvedAndCompared) {
  const char* half = "f(a: T[2*d], b: T[d]) -> (y: T[d])";
  EXPECT_EQ(Inferred(half, {{"2*n + 2"}, {"n + 1"}}), "n + 1");
  EXPECT_EQ(Inferred(half, {{"n"}, {"m"}}), "m unless refused");
  EXPECT_EQ(Inferred(half, {{"2*n + 1"}, {"n"}}), "a must be T[2*d].");
  EXPECT_EQ(Inferred("f(a: T[d], b: T[d]) -> (y: T[d])", {{"n"}, {"n + 1"}}), "b must be T[d].");
  EXPECT_EQ(Inferred("f(a: T[..., d], b: T[..., 1]) -> (y: T[..., d])", {{"n", "m"}, {"k", "1"}}),
            "n, m unless refused");
}

}  // namespace
}  // namespace anyop::size_numbers_test
