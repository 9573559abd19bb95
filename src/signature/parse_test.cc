// SPDX-License-Identifier: Apache-2.0
#include "anyop/parse.h"

#include <gtest/gtest.h>

#include <cmath>

#include "anyop/error.h"
#include "signature/contract.h"

namespace anyop::parse_test {
namespace {

// What the compiler sees: a good signature parses while compiling.
static_assert(ParseForms("f(x: T[..., d]) -> (y: T[..., d] over x) where T in f32 | bf16").size() ==
              1);
static_assert(KernelLetters(ParseForms("f(x: T[n], w: T[n]?, l: T[n]*, i: int, f: float?, b: bool, "
                                       "act: 'a' | 'b', to: dtype, j: int[2], g: float[]?) -> "
                                       "(y: T[n], z: T[n]?)")[0]) == "tTliFbwdjGtT");

// The text under the caret, and the sentence; "" if the signature is right.
std::string Refusal(std::string_view text, std::string_view* at = nullptr) {
  try {
    ParseForms(text);
  } catch (const SignatureError& e) {
    EXPECT_LE(e.position, text.size());
    if (at) *at = text.substr(std::min(e.position, text.size()));
    return e.what;
  }
  return "";
}
// Whether the signature is refused with a sentence that holds `part`, at the place `here`.
testing::AssertionResult Refuses(std::string_view text, std::string_view part,
                                 std::string_view here) {
  std::string_view at;
  const std::string what = Refusal(text, &at);
  if (what.find(part) == std::string::npos) {
    return testing::AssertionFailure() << "said \"" << what << "\" of " << text;
  }
  if (!at.starts_with(here)) return testing::AssertionFailure() << what << ", but at " << at;
  return testing::AssertionSuccess();
}

TEST(Parse, ReadsWhatIsPlanned) {
  const auto planned = [](std::string_view parameter, std::string_view result = "y: f32[n]") {
    return "f(x: f32[n], " + std::string(parameter) + ") -> (" + std::string(result) + ")";
  };
  const std::string right = planned("starts: planned dense i32[b+1]? offsets n");
  const auto forms = ParseForms(right);
  EXPECT_TRUE(forms[0].params[1].is_planned && forms[0].params[1].is_dense);
  EXPECT_FALSE(forms[0].params[0].is_planned);
  EXPECT_TRUE(Refuses(planned("k: planned int"), "only a tensor is planned", "int"));
  EXPECT_TRUE(Refuses(planned("k: planned i64[m]*"), "only a tensor is planned", "i64"));
  EXPECT_TRUE(Refuses(planned("k: planned mut i64[m]"), "a planned tensor is only read", "i64"));
  EXPECT_TRUE(Refuses(planned("k: planned f32[m]"), "planned tensors are i32 or i64", "f32[m]"));
  EXPECT_TRUE(
      Refuses(planned("k: planned i64[m]", "y: i64[m] over k"), "no result lies over", "k)"));
  for (const char* beside : {"", "x: f32[n]?, ", "x: f32[n]*, ", "x: planned i32[n], "}) {
    EXPECT_TRUE(Refuses("f(" + std::string(beside) + "k: planned i64[m]) -> (y: f32[m])",
                        "planned needs a tensor beside it that is not planned", "k: "));
  }
  EXPECT_TRUE(
      Refuses("f(x: f32[n], k: planned i64[n]) -> (y: f32[n])\n"
              "f(x: f32[n], k: i64[n, m]) -> (y: f32[n])",
              "planned, mut or optional in all", "k: i64"));
}

TEST(Parse, AChecksLettersMayBeThoseOfShapes) {
  EXPECT_TRUE(IsCheckOf("tTlif", "tTlif"));
  EXPECT_TRUE(IsCheckOf("sSmif", "tTlif"));
  EXPECT_TRUE(IsCheckOf("Mm", "Ll"));
  EXPECT_FALSE(IsCheckOf("m", "L"));
  EXPECT_FALSE(IsCheckOf("sTlif", "TTlif"));
  EXPECT_FALSE(IsCheckOf("tTli", "tTlif"));
  EXPECT_FALSE(IsCheckOf("tTlis", "tTlif"));
}

TEST(Parse, ReadsEveryPartOfTheGrammar) {
  const auto forms = ParseForms(
      "f(a: mut T[..., n, 2*k]? , b: dense u8 | i8[..., n], c: i8[m]* , ids: I[t]? below m*k, loc: "
      "i64[q+1] "
      "offsets t, i: int = -3, j: int?, w: 'x' | 'y z' = 'y z', to: dtype = bf16, s: int[2] = [1, "
      "1], "
      "g: float[] = [0.5, -1e-3], h: bool = True, e: float = 1e-6, last: T[n]?)\n"
      "   -> (y: to[..., ceil_div(n, 2) - 1]? over a | b, z: f32[])\n"
      "   where T in f32 | bf16, I in i32 | i64, (n >= 1 and not k == 2) or given(a), s >= 1,\n"
      "         to != i8, w == 'x', len(c) >= 1");
  ASSERT_EQ(forms.size(), 1u);
  const Form& f = forms[0];
  ASSERT_EQ(f.params.size(), 14u);
  EXPECT_TRUE(f.params[0].is_mut && f.params[0].is_optional && f.params[0].tensor.has_dots);
  EXPECT_TRUE(f.params[0].has_default && f.params[0].default_is_none)
      << "a call by keyword may leave it out, though later parameters have no default";
  EXPECT_EQ(FirstWithDefaults(f), 5u);
  EXPECT_TRUE(f.params[1].is_dense);
  EXPECT_EQ(f.params[1].tensor.dtypes.mask, 1u << ANYOP_U8 | 1u << ANYOP_I8);
  EXPECT_EQ(f.params[2].kind, ParamKind::kTensors);
  EXPECT_EQ(f.params[3].rule, IndexRule::kBelow);
  EXPECT_EQ(f.params[4].rule, IndexRule::kOffsets);
  EXPECT_EQ(f.params[5].default_int, -3);
  EXPECT_TRUE(f.params[6].has_default && f.params[6].default_is_none) << "? is None";
  EXPECT_EQ(f.params[7].default_int, 1);
  EXPECT_EQ(f.params[8].default_int, ANYOP_BF16);
  EXPECT_EQ(f.params[9].default_ints, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(f.params[10].default_floats, (std::vector<double>{0.5, -1e-3}));
  EXPECT_EQ(f.params[11].default_int, 1);
  EXPECT_EQ(f.params[12].default_float, 1e-6) << "to the last bit";
  EXPECT_TRUE(f.results[0].is_optional);
  EXPECT_EQ(f.results[0].over, 3u);
  EXPECT_EQ(f.results[0].tensor.dtypes.kind, DTypes::kParameter);
  EXPECT_EQ(f.conditions.size(), 7u);
  EXPECT_EQ(f.conditions[2].text, "(n >= 1 and not k == 2) or given(a)");
  EXPECT_EQ(f.vars, (std::vector<std::string_view>{"n", "k", "m", "t", "q"}));
}

TEST(Parse, AWordMayBeEmptyAndADefaultInfinite) {
  const auto forms = ParseForms(
      "f(x: f32[n]*?, to: dtype?, w: '' | 'a' = '', lo: float = -inf, hi: float = inf, "
      "each: float[] = [inf, 1]) -> ()");
  const auto& params = forms[0].params;
  EXPECT_EQ(params[2].words[0], "");
  EXPECT_EQ(params[2].default_int, 0);
  EXPECT_EQ(params[3].default_float, -HUGE_VAL);
  EXPECT_EQ(params[4].default_float, HUGE_VAL);
  EXPECT_EQ(params[5].default_floats, (std::vector<double>{HUGE_VAL, 1}));
  EXPECT_EQ(KernelLetters(forms[0]), "LDwffg");
  EXPECT_TRUE(Refuses("f(i: int = inf) -> ()", "does not fit", "inf"));
}

TEST(Parse, NumbersAreExact) {
  for (const char* text : {"1e-6", "0.1", "10000.0", "1e-10", "3.25", "1e22", "0.02", "123456.789",
                           "1e+5", "1.", "1.e2", ".5", "2E-3", "-.25", "-1.e+2"}) {
    const std::string s = "f(e: float = " + std::string(text) + ") -> ()";
    EXPECT_EQ(ParseForms(s)[0].params[0].default_float, std::stod(text)) << text;
  }
  EXPECT_TRUE(Refuses("f(i: int = 9223372036854775808) -> ()", "more than 63 bits", "8)"));
  EXPECT_EQ(Refusal("f(e: float) -> () where e < 1e+5, e > .5 or e == 2."), "");
  EXPECT_TRUE(Refuses("f(i: int = 1.) -> ()", "does not fit", "1."));
  EXPECT_TRUE(Refuses("f(e: float = 1e+) -> ()", "expected , or )", "e+"));
  EXPECT_TRUE(Refuses("f(e: float = .) -> ()", "expected a number", "."));
}

TEST(Parse, PointsAtTheMistake) {
  EXPECT_TRUE(Refuses("", "operator's name", ""));
  EXPECT_TRUE(Refuses("f", "expected (", ""));
  EXPECT_TRUE(Refuses("f(x: T[n] y: T[n]) -> ()", "expected , or )", "y:"));
  EXPECT_TRUE(Refuses("f(x T[n]) -> ()", "expected :", "T[n]"));
  EXPECT_TRUE(Refuses("f(x: ) -> ()", "expected a type", ") ->"));
  EXPECT_TRUE(Refuses("f(x: T) -> ()", "expected [", ") ->"));
  EXPECT_TRUE(Refuses("f(x: f32 | g32[n]) -> ()", "expected a dtype", "g32"));
  EXPECT_TRUE(Refuses("f(x: T[n, ...]) -> ()", "must come first", "]"));
  EXPECT_TRUE(Refuses("f(x: T[n)", "expected , or ]", ")"));
  EXPECT_TRUE(Refuses("f(x: T[n]) (y: T[n])", "expected ->", "(y"));
  EXPECT_TRUE(Refuses("f(x: T[n]) -> (y: T[q])", "unknown name", "q]"));
  EXPECT_TRUE(Refuses("f(x: T[n]) -> () where m > 1", "unknown name", "m > 1"));
  EXPECT_TRUE(Refuses("f(x: f32[n]) -> () where n > 1 n < 3", "at the start of a line", "n < 3"));
  EXPECT_TRUE(Refuses("f(w: 'a) -> ()", "does not end", "'a"));
  EXPECT_TRUE(Refuses("f(x: T[nope(n)]) -> ()", "unknown function", "nope"));
  EXPECT_TRUE(Refuses("f(x: T[n]) -> () where n", "true or false", "n"));
  EXPECT_TRUE(Refuses("f(x: T[n]) -> () where n < 1 < 2", "do not chain", "< 1"));
}

TEST(Parse, RefusesNamesThatMeanTwoThings) {
  EXPECT_TRUE(Refuses("f(n: T[n]) -> ()", "may not share a name", "n]"));
  EXPECT_TRUE(Refuses("f(x: T[1], x: T[1]) -> ()", "two parameters", "x: T[1])"));
  EXPECT_TRUE(
      Refuses("f(x: T[1]) -> (x: T[1])", "a parameter and a result have this name", "x: T[1])"));
  EXPECT_TRUE(Refuses("f(x: T[T]) -> ()", "must be an integer", "T]"));
  EXPECT_TRUE(Refuses("f(x: x[1]) -> ()", "not a dtype", "x[1]"));
  for (const char* name : {"out", "policy", "like", "self"}) {
    EXPECT_TRUE(Refuses(std::string("f(") + name + ": int) -> ()", "choose another", name));
    EXPECT_TRUE(Refuses(std::string("f() -> (") + name + ": f32[1])", "choose another", name));
  }
  EXPECT_TRUE(Refuses("f(f32: int) -> ()", "name of a type", "f32"));
  EXPECT_TRUE(Refuses("f(w: 'a' | 'a') -> ()", "twice", "'a')"));
}

TEST(Parse, RefusesDefaultsThatDoNotFit) {
  EXPECT_TRUE(Refuses("f(i: int = 0.5) -> ()", "does not fit", "0.5"));
  EXPECT_TRUE(Refuses("f(b: bool = 1) -> ()", "does not fit", "1"));
  EXPECT_TRUE(Refuses("f(w: 'a' = 'b') -> ()", "not one of the words", "'b'"));
  EXPECT_TRUE(Refuses("f(x: T[1] = None) -> ()", "optional", "None"));
  EXPECT_TRUE(Refuses("f(i: int = 1, x: f32[1]) -> ()", "without a default", "x"));
  EXPECT_TRUE(Refuses("f(i: int[2] = [1.5, 1]) -> ()", "does not fit", "[1.5"));
}

TEST(Parse, RefusesWhatContradictsItself) {
  EXPECT_TRUE(Refuses("f(s: int[2] = [1]) -> ()", "another length", "[1]"));
  EXPECT_TRUE(Refuses("f(g: float[1 + 1] = [1, 2, 3]) -> ()", "another length", "[1, 2, 3]"));
  EXPECT_TRUE(Refuses("f(s: int[1] = []) -> ()", "another length", "[]"));
  EXPECT_EQ(Refusal("f(x: f32[n], s: int[n] = [1, 1]) -> ()"), "") << "the default gives n";
  EXPECT_EQ(Refusal("f(s: int[2]? = None) -> ()"), "");
  EXPECT_TRUE(Refuses("f(s: int[2]) -> () where s[2] > 0", "no such element", "s[2]"));
  EXPECT_TRUE(Refuses("f(s: int[2], x: f32[s[2]]) -> ()", "no such element", "s[2]"));
  EXPECT_EQ(Refusal("f(s: int[2]) -> (y: f32[s[1]]) where s[0] > 0"), "");
  for (const char* size : {"-1", "2 - 3", "-7 / 4", "min(3, -1)", "1 - ceil_div(7, 4)"}) {
    const std::string type = "f32[" + std::string(size) + "]";
    EXPECT_TRUE(Refuses("f(x: " + type + ") -> ()", "at least 0", "")) << size;
    EXPECT_TRUE(Refuses("f() -> (y: " + type + ")", "at least 0", "")) << size;
    EXPECT_TRUE(Refuses("f(s: int[" + std::string(size) + "]) -> ()", "at least 0", "")) << size;
  }
  EXPECT_EQ(Refusal("f(x: f32[7 % 4 - 3, -(-2), max(1, 2)]) -> ()"), "");
  EXPECT_TRUE(Refuses("f(x: f32[4 / (2 - 2)]) -> ()", "divides by zero", "/ (2"));
  EXPECT_TRUE(Refuses("f(x: f32[9223372036854775807 + 1]) -> ()", "63 bits", "+ 1"));
  EXPECT_TRUE(Refuses("f(i: i64[n] below -1) -> ()", "at least 0", "-1"));
  EXPECT_TRUE(Refuses("f(i: i64[n] below 0.5) -> ()", "an integer", "0.5"));
  EXPECT_TRUE(Refuses("f(s: int[0.5]) -> ()", "an integer", "0.5"));
  EXPECT_TRUE(Refuses("f(x: f32[1]) -> (y: f32[1] over x | x)", "twice", "x)"));
}

TEST(Parse, AMisspeltDTypeIsNoVariable) {
  for (const char* name : {"bf61", "fp32", "int8", "half", "t", "F32", "BF16", "Bool"}) {
    const std::string both = "f(x: " + std::string(name) + "[n], y: " + name + "[n]) -> ()";
    EXPECT_TRUE(Refuses(both, "neither a dtype nor a dtype variable", name));
  }
  EXPECT_TRUE(Refuses("f(x: f32[1]) -> (y: bf61[1])", "neither a dtype", "bf61"));
  EXPECT_TRUE(Refuses("f(x: T[n]) -> ()", "used once", "T[n]"));
  EXPECT_TRUE(Refuses("f(x: T[n], y: TT[n]) -> () where T in f32", "used once", "TT[n]"));
  EXPECT_EQ(Refusal("f(x: T[n]) -> () where T in f32"), "");
  EXPECT_EQ(Refusal("f(x: T[n]) -> () where n*bytes(T) == 32"), "");
  EXPECT_EQ(Refusal("f(x: T[n], to: dtype) -> () where T == to"), "");
  EXPECT_EQ(Refusal("f(x: T[n]) -> (y: T[n])"), "");
  EXPECT_EQ(Refusal("f(x: to[n], to: dtype) -> ()"), "") << "a dtype parameter has any name";
}

TEST(Parse, EverySizeMustBeSolvable) {
  EXPECT_EQ(Refusal("f(x: T[2*d, b+1, 32*g - 4]) -> (y: T[d, b, g])"), "");
  EXPECT_EQ(Refusal("f(x: T[a*b], y: T[b]) -> (z: T[a])"), "") << "waits for b";
  EXPECT_TRUE(Refuses("f(x: T[a*b]) -> ()", "cannot be solved", "*b"));
  EXPECT_TRUE(Refuses("f(x: T[a/2]) -> ()", "cannot be solved", "/2"));
  EXPECT_TRUE(Refuses("f(x: T[a*a]) -> ()", "cannot be solved", "*a"));
  EXPECT_EQ(Refusal("f(x: T[a/2], y: T[a]) -> ()"), "");
  EXPECT_TRUE(Refuses("f(x: T[n]?) -> (y: f32[n])", "optional argument only", "n])"));
  EXPECT_TRUE(Refuses("f(x: T[1]?) -> (y: T[1])", "optional argument only", "T[1])"));
  EXPECT_TRUE(Refuses("f(to: dtype?) -> (y: to[1])", "optional argument only", "to[1])"));
  EXPECT_TRUE(Refuses("f(x: f32[1]) -> (y: f32[..., 1])", "leading", "f32[..."));
  EXPECT_TRUE(Refuses("f(x: f32[1]) -> (y: T[1])", "no argument has this dtype", "T[1]"));
  EXPECT_TRUE(Refuses("f(x: f32[1]) -> (y: f32 | f16[1])", "one dtype", "f32 |"));
  EXPECT_TRUE(Refuses("f(x: f32[e], e: float) -> ()", "must be an integer", "e]"));
}

TEST(Parse, IndicesAreIntegers) {
  EXPECT_TRUE(Refuses("f(i: I[n] below n) -> ()", "i32 or i64", "I[n]"));
  EXPECT_TRUE(Refuses("f(i: f32[n] below n) -> ()", "i32 or i64", "f32[n]"));
  EXPECT_EQ(Refusal("f(i: I[n] below 2*n) -> () where I in i32 | i64"), "");
  EXPECT_TRUE(Refuses("f(i: I[n] below q) -> () where I in i32", "unknown name", "q)"));
}

TEST(Parse, FormsAgree) {
  EXPECT_TRUE(Refuses("f(x: f32[1]) -> ()\ng(x: f32[1, 1]) -> ()", "its name", "g("));
  EXPECT_TRUE(Refuses("f(x: f32[1]) -> ()\nf(y: f32[1, 1]) -> ()", "same parameters", "y:"));
  EXPECT_TRUE(Refuses("f(x: f32[1]) -> ()\nf(x: int) -> ()", "same kind", "x: int"));
  EXPECT_TRUE(Refuses("f(x: f32[1]) -> ()\nf(x: f32[1, 1]) -> (y: f32[1])",
                      "same parameters and results", "f(x"));
  EXPECT_TRUE(Refuses("f(w: 'a' = 'a', i: int = 1) -> ()\nf(w: 'b', i: int = 2) -> ()",
                      "first form", "i:"));
}

TEST(Parse, EveryFormCanBeReached) {
  EXPECT_TRUE(Refuses("f(x: f32[n]) -> ()\nf(x: f32[m]) -> ()", "never be reached", "f(x: f32[m]"));
  EXPECT_TRUE(
      Refuses("f(x: f32[...]) -> ()\nf(x: f32[m]) -> ()", "never be reached", "f(x: f32[m]"));
  EXPECT_EQ(Refusal("f(x: f32[m]) -> ()\nf(x: f32[...]) -> ()"), "");
  EXPECT_EQ(Refusal("f(x: T[..., d], y: T[..., d]) -> ()\nf(x: T[..., d], y: T[d]) -> ()"), "");
  EXPECT_TRUE(Refuses("f(x: T[..., d], y: T[..., d]) -> ()\nf(x: T[a, d], y: T[b, d]) -> ()",
                      "never be reached", "f(x: T[a"));
  EXPECT_EQ(Refusal("f(x: f32[n], w: 'a') -> ()\nf(x: f32[n], w: 'a' | 'b') -> ()"), "");
  EXPECT_TRUE(
      Refuses("f(x: f32[n], w: 'a' | 'b') -> ()\nf(x: f32[n], w: 'b') -> ()", "never", "f(x"));
  const std::string ab = "f(x: f32[n], w: 'a') -> ()\nf(x: f32[n], w: 'b') -> ()\n";
  EXPECT_TRUE(Refuses(ab + "f(x: f32[n], w: 'b' | 'a') -> ()", "never", "f(x: f32[n], w: 'b' |"))
      << "two earlier forms hide it together";
  EXPECT_EQ(Refusal(ab + "f(x: f32[n], w: 'a' | 'c') -> ()"), "");
  EXPECT_EQ(Refusal("f(w: 'a', v: 'a' | 'b') -> ()\nf(w: 'b', v: 'a') -> ()\n"
                    "f(w: 'a' | 'b', v: 'a' | 'b') -> ()"),
            "")
      << "w = 'b' with v = 'b' is left";
  EXPECT_TRUE(
      Refuses("f(w: 'a', v: 'a' | 'b') -> ()\nf(w: 'b', v: 'a') -> ()\n"
              "f(w: 'b', v: 'b') -> ()\nf(w: 'a' | 'b', v: 'a' | 'b') -> ()",
              "never", "f(w: 'a' | 'b'"));
  EXPECT_TRUE(
      Refuses("f(x: f32[], y: f32[1]) -> ()\nf(x: f32[..., 1], y: f32[1]) -> ()\n"
              "f(x: f32[n], y: f32[1]) -> ()",
              "never", "f(x: f32[n]"));
  EXPECT_TRUE(
      Refuses("f(x: f32[..., d]) -> ()\nf(x: f32[..., a, d]) -> ()", "never", "f(x: f32[..., a"));
}

TEST(Parse, WordsInConditionsExist) {
  EXPECT_EQ(Refusal("f(x: f32[n], w: 'a') -> () where w != 'b'\nf(x: f32[n], w: 'b') -> ()"), "");
  EXPECT_TRUE(Refuses("f(x: f32[n], w: 'a') -> () where w != 'c'", "none of the", "'c'"));
}

TEST(Parse, LimitsAreErrors) {
  std::string many = "f(";
  for (int i = 0; i <= kMaxParams; ++i) many += (i ? ", p" : "p") + std::to_string(i) + ": int";
  EXPECT_TRUE(Refuses(many + ") -> ()", "56 parameters", "p56"));
  EXPECT_TRUE(Refuses("f(x: T[1, 1, 1, 1, 1, 1, 1, 1, 1]) -> ()", "8 dimensions", "T["));
  EXPECT_TRUE(
      Refuses("f(x: T[n]) -> () where " + std::string(100, '(') + "n", "nested too deeply", "("));
  EXPECT_TRUE(
      Refuses("f(x: T[n]) -> () where n == " + std::string(100, '-') + "1", "too deeply", "-"));
}

std::string Repeated(std::string_view part, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += part;
  return out;
}

// A chain is as deep a tree as nested parentheses; everything that reads a tree recurses.
TEST(Parse, LongChainsAreErrors) {
  for (const int terms : {101, 1000, 60000}) {
    for (const char* op : {"+ n ", "- n ", "* n ", "/ n ", "% n ", "== n or n ", "== n and n "}) {
      const std::string text = "f(x: f32[n]) -> () where n " + Repeated(op, terms) + "== n";
      if (text.size() > kMaxText) {
        EXPECT_TRUE(Refuses(text, "65536 characters", text.substr(kMaxText))) << op;
      } else {
        EXPECT_TRUE(Refuses(text, "100 operators", "")) << op << terms;
      }
    }
    EXPECT_NE(Refusal("f(x: f32[" + Repeated("n+", terms) + "n]) -> ()"), "");
    EXPECT_NE(Refusal("f(x: f32[n]) -> () where " + Repeated("not ", terms) + "n == 1"), "");
    EXPECT_NE(Refusal("f(x: f32[n]) -> (y: f32[" + Repeated("min(n, ", terms) + "n"), "");
  }
  EXPECT_EQ(Refusal("f(x: f32[n]) -> () where n" + Repeated(" + n", 98) + " == n"), "");
}

TEST(Parse, LongListsAreErrors) {
  const auto list = [](const char* item, int n) {
    return item + Repeated(std::string(", ") + item, n);
  };
  EXPECT_TRUE(Refuses("f(n: int) -> () where " + list("n > 1", 64), "64 conditions", "n > 1"));
  EXPECT_EQ(Refusal("f(n: int) -> () where " + list("n > 1", 63)), "");
  EXPECT_TRUE(Refuses("f(s: int[] = [" + list("1", 64) + "]) -> ()", "64 numbers", ""));
  std::string words = "f(w: 'w'", forms = "f(x: f32[], w: 'w') -> ()";
  for (int i = 0; i < 64; ++i) words += " | 'w" + std::to_string(i) + "'";
  EXPECT_TRUE(Refuses(words + ") -> ()", "64 words", "'w63'"));
  for (int i = 0; i < 32; ++i) forms += "\nf(x: f32[], w: 'w" + std::to_string(i) + "') -> ()";
  EXPECT_TRUE(Refuses(forms, "32 forms", "f(x: f32[], w: 'w31')"));
  const std::string name(101, 'n');
  EXPECT_TRUE(Refuses(name + "() -> ()", "100 characters", name));
  EXPECT_TRUE(Refuses("f(" + name + ": int) -> ()", "100 characters", name));
  EXPECT_TRUE(Refuses("f(x: f32[" + name + "]) -> ()", "100 characters", name));
  EXPECT_TRUE(Refuses("f(w: '" + name + "') -> ()", "100 characters", "'n"));
  EXPECT_TRUE(Refuses("f() -> ()" + std::string(65536, ' '), "65536 characters", ""));
}

std::string ErrorOf(std::string_view text) {
  try {
    ParseContract(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code, ANYOP_INVALID_ARGUMENT);
    return e.what();
  }
  return "";
}

TEST(Contract, ErrorsShowTheLineAndACaret) {
  EXPECT_EQ(ErrorOf("rms_norm(x: T[..., d]) -> (y: T[..., d])\n    where T in f33"),
            "the signature of rms_norm, line 2, column 16: expected a dtype: f64, f32, f16, bf16, "
            "f8e4m3, f8e5m2, i64, i32, i16, i8, u8, bool, u16, u32, u64, c64, c128, f8e8m0, "
            "f8e4m3fnuz, f8e5m2fnuz, f4e2m1x2. Did you mean 'f32'?\n"
            "        where T in f33\n"
            "                   ^");
  const std::string cut =
      ErrorOf("f(" + std::string(300, ' ') + "x: T[n] y" + std::string(200, ' ') + ")");
  EXPECT_LT(cut.size(), 350u) << "a long line is cut around the place";
  EXPECT_NE(cut.find("x: T[n] y"), std::string::npos);
}

TEST(Contract, NamesTheNearestDType) {
  EXPECT_EQ(ErrorOf("f(x: bf61[n]) -> ()"),
            "the signature of f, line 1, column 6: neither a dtype nor a dtype variable, which "
            "begins with a capital letter (T) and is no dtype's name. Did you mean 'bf16'?\n"
            "    f(x: bf61[n]) -> ()\n"
            "         ^");
  EXPECT_EQ(ErrorOf("f(x: BF61[n]) -> ()"),
            "the signature of f, line 1, column 6: this dtype variable is used once and "
            "constrained nowhere: write the dtypes that it stands for here, or in a condition (T "
            "in f32 | bf16). Did you mean 'bf16'?\n"
            "    f(x: BF61[n]) -> ()\n"
            "         ^");
  EXPECT_EQ(ErrorOf("f(x: T[n]) -> ()").find("Did you mean"), std::string::npos);
  for (const auto& [other, ours] :
       {std::pair("float32", "f32"), std::pair("Float16", "f16"), std::pair("bfloat16", "bf16"),
        std::pair("int64", "i64"), std::pair("uint8", "u8"), std::pair("double", "f64")}) {
    const std::string error = ErrorOf("f(x: " + std::string(other) + "[n]) -> ()");
    EXPECT_NE(error.find("Did you mean '" + std::string(ours) + "'?"), std::string::npos) << error;
  }
}

TEST(Contract, RefusesAResultOverMemoryOfAnotherKind) {
  for (const char* signature :
       {"f(x: f32[n]) -> (y: f32[2*n] over x)", "f(x: f32[n, m]) -> (y: f32[m, n] over x)",
        "f(x: f32[n, m]) -> (y: f32[n*m] over x)", "f(x: f32[..., n]) -> (y: f32[n] over x)",
        "f(x: f32[n]) -> (y: bf16[n] over x)",
        "f(a: f32[n], x: f32[m]) -> (y: f32[n] over a | x)"}) {
    EXPECT_NE(ErrorOf(signature).find("over names a parameter with the dimensions and the dtype of "
                                      "the result."),
              std::string::npos)
        << signature << ErrorOf(signature);
  }
  EXPECT_EQ(ErrorOf("f(x: T[..., 2*n], k: T[n]) -> (y: T[..., 2*n] over x) where T in f32 | f16"),
            "");
}

TEST(Contract, NumbersWordsOverAllForms) {
  const auto c =
      ParseContract("f(x: f32[n], w: 'b' | 'a' = 'a') -> ()\nf(x: f32[n, m], w: 'c' | 'b') -> ()");
  EXPECT_EQ(c->words[1], (std::vector<std::string>{"b", "a", "c"}));
  EXPECT_EQ(c->forms[0].params[1].word_mask, 0b011u);
  EXPECT_EQ(c->forms[1].params[1].word_mask, 0b101u);
}

TEST(Contract, TheHashIsOfTheContract) {
  const auto hash = [](std::string_view t, std::string_view g = "") {
    return ParseContract(t, g)->hash;
  };
  const std::string one = hash("f(x: mut f32[n], w: 'a b' = 'a b') -> ()");
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(one, hash("f( x :mut  f32[ n ],\n  w: 'a b'='a b')->()")) << "spaces do not count";
  EXPECT_NE(one, hash("f(x: mut f32[n], w: 'ab' = 'ab') -> ()"));
  EXPECT_NE(hash("f(x: f32[n, notn]) -> () where not n == 1"),
            hash("f(x: f32[n, notn]) -> () where notn == 1"))
      << "nor do they vanish";
  EXPECT_NE(one, hash("f(x: mut f32[m], w: 'a b' = 'a b') -> ()"));
  EXPECT_NE(one, hash("f(x: mut f32[n], w: 'a b' = 'a b') -> ()", "f_backward"));
}

}  // namespace
}  // namespace anyop::parse_test
