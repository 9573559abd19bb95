// SPDX-License-Identifier: Apache-2.0
#include "signature/expression.h"

#include <gtest/gtest.h>

#include "anyop/error.h"
#include "signature/check.h"
#include "signature/owned_call.h"

namespace anyop::expression_test {
namespace {

constexpr const char* kSignature =
    "f(x: T[..., d], w: T[k]?, xs: i8[n]*, s: int[2] = [1, 2], g: float[]?, i: int = 3, r: float = "
    "0.5, b: "
    "bool = False, act: 'none' | 'silu' = 'none', to: dtype = f32) -> (y: to[..., 2*d])\n"
    "f(x: T[..., d], w: T[k]?, xs: i8[n]*, s: int[2], g: float[]?, i: int, r: float, b: bool, act: "
    "'gelu', "
    "to: dtype) -> (y: to[..., d])";

struct Call {
  std::unique_ptr<Contract> contract = ParseContract(kSignature);
  OwnedCall call;
  Bindings bindings;
  int form;
  explicit Call(std::string_view arguments = "x = bf16[2, 3, 8], xs = [i8[4], i8[4]]")
      : call(ParseCall(*contract, arguments)) {
    std::string error;
    form = Check(*contract, call.frame(), &bindings, &error);
    EXPECT_EQ(error, "");
  }
  Number operator()(std::string_view text, int threads = 1) {
    const Expression e = CompileExpression(*contract, text, ThreadsName::kKnown);
    return Evaluate(*contract, form, e.node[std::size_t(form)], bindings, call.frame(), threads);
  }
  std::string When(std::string_view text) {
    std::string out;
    for (const Expression& e : CompileConditions(*contract, text)) {
      out += (out.empty() ? "" : "; ") + Describe(*contract, form, e, bindings, call.frame());
    }
    return out;
  }
};

TEST(Expression, ComputesSizes) {
  Call f;
  EXPECT_EQ(f("size(x)").i, 48);
  EXPECT_EQ(f("rows(x) + rank(x)").i, 9);
  EXPECT_EQ(f("bytes(x)").i, 96);
  EXPECT_EQ(f("bytes(T) * 10 + bytes(i8) + bytes(to)").i, 25);
  EXPECT_EQ(f("size(xs) + len(xs)").i, 10);
  EXPECT_EQ(f("size(y)").i, 96) << "of a result that is not allocated yet";
  EXPECT_EQ(f("bytes(y) + rows(y) + rank(y)").i, 4 * 96 + 6 + 3);
  EXPECT_EQ(f("s[0] + 10*s[1] + 100*sum(s) + len(s)").i, 1 + 20 + 300 + 2);
  EXPECT_EQ(f("min(d, i) + max(d, i) * 100 + ceil_div(d, i) * 1000").i, 3 + 800 + 3000);
  EXPECT_EQ(f("-d / 3 + 10*(-d % 3)").i, -3 + 10);
  EXPECT_EQ(f("64 * threads", 3).i, 192);
  EXPECT_EQ(f("d * b + 4 * given(w)").i, 0);
  EXPECT_DOUBLE_EQ(f("d * r + 1.5e1").f, 19.0);
  EXPECT_EQ(f("2 - 3 - 4").i, -5);
}

TEST(Expression, UnknownIsAValue) {
  Call f;
  EXPECT_FALSE(f("k").known);
  EXPECT_FALSE(f("k + 1").known);
  EXPECT_FALSE(f("size(w)").known);
  EXPECT_FALSE(f("sum(g)").known);
  EXPECT_TRUE(f("0 * k").known);
  EXPECT_TRUE(f("k * b").known) << "b is false, and 0 * unknown is 0";
  EXPECT_EQ(f.When("k > 1 or d == 8"), "k > 1 or d == 8 is true, d is 8, k is unknown");
  EXPECT_EQ(f.When("k > 1 and d == 8"), "k > 1 and d == 8 is unknown, d is 8, k is unknown");
  EXPECT_EQ(f.When("k > 1 and d == 7"), "k > 1 and d == 7 is false, d is 8, k is unknown");
  EXPECT_EQ(f.When("not k > 1"), "not k > 1 is unknown, k is unknown");
  EXPECT_EQ(f.When("given(w)"), "given(w) is false, w is None");
}

TEST(Expression, DescribesConditionsForExplain) {
  Call f;
  EXPECT_EQ(f.When("d % 16 == 0"), "d % 16 == 0 is false, d is 8");
  EXPECT_EQ(f.When("T == f32, d >= 8"), "T == f32 is false, T is bf16; d >= 8 is true, d is 8");
  EXPECT_EQ(f.When("T in f32 | bf16"), "T in f32 | bf16 is true, T is bf16");
  EXPECT_EQ(f.When("act == 'none'"), "act == 'none' is true, act is 'none'");
  EXPECT_EQ(f.When("act != 'gelu'"), "act != 'gelu' is true, act is 'none'");
  EXPECT_EQ(f.When("b"), "b is false, b is False");
  EXPECT_EQ(f.When("s >= 2"), "s >= 2 is false, s is [1, 2]");
  EXPECT_EQ(f.When("3 > s"), "3 > s is true, s is [1, 2]");
  EXPECT_EQ(f.When("d / b > 1"), "d / b > 1 divides by zero, b is False, d is 8");
  EXPECT_EQ(f.When(""), "");
}

TEST(Expression, DeclinesWhereAFormLacksAName) {
  auto c = ParseContract("f(x: f32[n, d]) -> ()\nf(x: f32[m]) -> ()");
  const Expression e = CompileConditions(*c, "d > 1")[0];
  EXPECT_GE(e.node[0], 0);
  EXPECT_EQ(e.node[1], -1);
  EXPECT_FALSE(Evaluate(*c, 1, e.node[1], {}, nullptr).known);
  EXPECT_EQ(Describe(*c, 1, e, {}, nullptr), "d > 1 names what this form lacks");
}

std::string ErrorOf(std::string_view text, bool condition = false) {
  auto c = ParseContract(kSignature);
  try {
    condition ? void(CompileConditions(*c, text)) : void(CompileExpression(*c, text));
  } catch (const Error& e) {
    EXPECT_EQ(e.code, ANYOP_INVALID_ARGUMENT);
    return e.what();
  }
  return "";
}

TEST(Expression, ErrorsPointIntoTheText) {
  EXPECT_EQ(
      ErrorOf("d + q"),
      "an expression of f, line 1, column 5: unknown name: neither a parameter nor a variable "
      "that some dimension of an input binds.\n    d + q\n        ^");
  EXPECT_NE(ErrorOf("d + ").find("expected an expression"), std::string::npos);
  EXPECT_NE(ErrorOf("d d").find("after the end"), std::string::npos);
  EXPECT_NE(ErrorOf("d, d").find("after the end"), std::string::npos);
  EXPECT_NE(ErrorOf("act").find("must be a number"), std::string::npos);
  EXPECT_NE(ErrorOf("d", true).find("true or false"), std::string::npos);
  EXPECT_NE(ErrorOf("threads > 1", true).find(".workspace"), std::string::npos);
  EXPECT_NE(ErrorOf("8 * threads").find("threads is known in .workspace only"), std::string::npos)
      << "of .flops and .bytes";
  EXPECT_NE(ErrorOf("d" + std::string(70000, ' ')).find("65536 characters"), std::string::npos);
  std::string chain = "d";
  for (int i = 0; i < 1000; ++i) chain += " + d";
  EXPECT_NE(ErrorOf(chain).find("at most 100 operators"), std::string::npos);
  EXPECT_NE(ErrorOf(chain + " > 1", true).find("at most 100 operators"), std::string::npos);
  EXPECT_NE(ErrorOf("s[2]").find("no such element"), std::string::npos);
  EXPECT_NE(ErrorOf("act == 'slu'", true).find("none of the parameter's words"), std::string::npos);
  EXPECT_NE(ErrorOf("d < 3 < 4", true).find("do not chain"), std::string::npos);
  EXPECT_NE(ErrorOf("T < f32", true).find("no order"), std::string::npos);
  EXPECT_NE(ErrorOf("s + 1 > 2", true).find("a list stands"), std::string::npos);
  EXPECT_NE(ErrorOf("s == s", true).find("a list stands"), std::string::npos);
  EXPECT_NE(ErrorOf("given(y)", true).find("unknown name"), std::string::npos);
}

TEST(Expression, JoinsTheKey) {
  auto c = ParseContract("f(x: f32[d], eps: float = 0.5, n: int = 1) -> () where eps >= 0, n >= 1");
  EXPECT_EQ(c->scalar_checks[0].size(), 2u);
  CompileConditions(*c, "n >= 8");
  EXPECT_EQ(c->scalar_checks[0].size(), 1u);
  EXPECT_TRUE(c->key_params >> c->param("n") & 1);
  EXPECT_FALSE(c->key_params >> c->param("eps") & 1);
}

TEST(Show, UsesFewParentheses) {
  const auto c =
      ParseContract("f(x: T[n, d], y: T[(n + 1)*2 - (d - 1), n*(d/3), ceil_div(n, 3) % 2]) -> ()");
  const auto& dims = c->forms[0].params[1].tensor.dims;
  EXPECT_EQ(Show(c->forms[0], dims[0]), "(n+1)*2-(d-1)");
  EXPECT_EQ(Show(c->forms[0], dims[1]), "n*(d/3)");
  EXPECT_EQ(Show(c->forms[0], dims[2]), "ceil_div(n, 3)%2");
}

}  // namespace
}  // namespace anyop::expression_test
