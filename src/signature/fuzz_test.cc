// SPDX-License-Identifier: Apache-2.0
// Mutated signatures and calls: the parser throws nothing but SignatureError, checks never crash.
#include "platform/testing/fuzz.h"
#include "anyop/error.h"
#include "signature/facts.h"
#include "signature/generate.h"
#include "signature/symbolic.h"

namespace anyop::fuzz_test {
namespace {

constexpr std::string_view kSeeds[] = {
    "rms_norm(x: T[..., d], weight: T[d]?, eps: float = 1e-6) -> (y: T[..., d] over x)\n"
    "    where T in f32 | f16 | bf16, d >= 1, eps >= 0",
    "add(x: T[..., d], y: T[..., d]) -> (z: T[..., d] over x | y)\n"
    "add(x: T[..., d], y: T[d]) -> (z: T[..., d] over x)",
    "conv(x: T[n, cg*groups, h], w: T[co, cg, k], stride: int[2] = [1, 1], groups: int = 1, pad: "
    "'a' = 'a')\n"
    "    -> (y: T[n, co, (h + 2 - stride[0]*(k-1) - 1)/stride[0] + 1]?) where groups >= 1, stride "
    ">= 1\n"
    "conv(x: T[n, cg*groups, h], w: T[co, cg, k], stride: int[2], groups: int, pad: 'b' | 'c') -> "
    "(y: T[n, h]?)",
    "cache(ids: I[t] below nb*bs, q: I[b+1]? offsets t, c: mut dense C[nb, bs, w]*, to: dtype = "
    "f8e4m3, g: float[]?,\n"
    "      lse: bool = False, n: int?) -> (y: to[ceil_div(t, 2), t*lse], c2: i64[1])\n"
    "    where I in i32 | i64, C == to or (C in i8 and not given(g)), len(c) >= 1, sum(g) < 1.5e3, "
    "n % 2 == 0"};
constexpr std::string_view kTokens[] = {"(",
                                        ")",
                                        "[",
                                        "]",
                                        ",",
                                        ":",
                                        "->",
                                        "?",
                                        "*",
                                        "+",
                                        "-",
                                        "/",
                                        "%",
                                        "|",
                                        "=",
                                        "==",
                                        "!=",
                                        "<=",
                                        ">=",
                                        "<",
                                        ">",
                                        "'",
                                        "...",
                                        "mut ",
                                        "dense ",
                                        " below ",
                                        " offsets ",
                                        " over ",
                                        " where ",
                                        " in ",
                                        " and ",
                                        " or ",
                                        "not ",
                                        "given(",
                                        "size(",
                                        "bytes(",
                                        "len(",
                                        "min(",
                                        "ceil_div(",
                                        "f32",
                                        "bf16",
                                        "int",
                                        "float",
                                        "bool",
                                        "dtype",
                                        "T",
                                        "d",
                                        "n",
                                        "x",
                                        "0",
                                        "1",
                                        "9223372036854775807",
                                        "99999999999999999999",
                                        "1e300",
                                        "1e-400",
                                        "0.1",
                                        "None",
                                        "True",
                                        "\n",
                                        "\nadd(",
                                        "threads",
                                        "\0",
                                        "\xff",
                                        "'w'",
                                        "[1, 1]",
                                        "-1",
                                        "----",
                                        "((((((((((((((((((((((((((((((((((((((((((("};

std::string Mutate(Random& random) {
  std::string text(kSeeds[random() % std::size(kSeeds)]);
  const int n = 1 + int(random() % 6);
  for (int i = 0; i < n; ++i) {
    const std::size_t at = text.empty() ? 0 : random() % text.size();
    switch (random() % 6) {
      case 0:
        text.erase(at, 1 + random() % 12);
        break;
      case 1:
        text.insert(at, kTokens[random() % std::size(kTokens)]);
        break;
      case 2:
        text.insert(at, text.substr(text.empty() ? 0 : random() % text.size(), random() % 40));
        break;
      case 3:
        if (!text.empty()) text[at] = char(random());
        break;
      case 4:
        text.replace(at, random() % 8, kTokens[random() % std::size(kTokens)]);
        break;
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

TEST(Fuzz, MutatedSignaturesAreParsedOrRefused) {
  fuzz::Tries tries(1.5);
  Random& random = tries.random;
  int parsed = 0, refused = 0;
  while (tries.Next()) {
    const std::string text = Mutate(random);
    std::unique_ptr<Contract> c;
    try {
      c = ParseContract(text);
    } catch (const Error& e) {
      EXPECT_EQ(e.code, ANYOP_INVALID_ARGUMENT);
      EXPECT_NE(std::string_view(e.what()).find("^"), std::string_view::npos) << e.what();
      ++refused;
      continue;
    }
    ++parsed;
    EXPECT_EQ(FactsOf(*c).declined_without.size(), std::size_t(c->n_results()));
    EXPECT_FALSE(ContractJson(*c).empty());
    GenerateOptions options;
    options.tries = 3;
    Generate(*c, random, options);
  }
  EXPECT_GT(parsed, 10);  // however slow the build
  EXPECT_GT(refused, 10);
}

TEST(Fuzz, MutatedExpressionsAreCompiledOrRefused) {
  fuzz::Tries tries(1.5);
  Random& random = tries.random;
  const auto c = ParseContract(kSeeds[3]);
  const auto call = Generate(*c, random);
  ASSERT_TRUE(call);
  while (tries.Next()) {
    std::string text;
    for (int k = 1 + int(random() % 8); k > 0; --k) text += kTokens[random() % std::size(kTokens)];
    auto fresh = tries.tries() % 500 == 0 ? ParseContract(kSeeds[3]) : nullptr;
    Contract& target = fresh ? *fresh : *c;
    try {
      for (const Expression& e : CompileConditions(target, text)) {
        Describe(target, 0, e, call->bindings, call->call.frame());
      }
      const Expression e = CompileExpression(target, text);
      Evaluate(target, 0, e.node[0], call->bindings, call->call.frame());
    } catch (const Error& e) {
      EXPECT_EQ(e.code, ANYOP_INVALID_ARGUMENT);
    }
  }
}

// Changes one thing of a right call: Check and InferResults answer with a form or a text.
void Spoil(OwnedCall& call, const Contract& c, Random& random) {
  const int i = int(random() % std::uint64_t(c.n_params() + c.n_results()));
  const auto odd = [&] { return fuzz::OddInteger(random); };
  Shape shape(random() % 10);
  for (auto& s : shape) s = odd();
  switch (random() % 8) {
    case 0:
      return call.Clear(i);
    case 1:
      return call.SetTensor(i, DType(random() % kDTypes), shape);
    case 2:
      return call.SetTensors(i, DType(random() % kDTypes), {shape, {2, 3}});
    case 3:
      return call.SetInt(i, odd());
    case 4:
      return call.SetFloat(i, double(odd()));
    case 5:
      return call.SetInts(i, shape);
    case 6:
      return call.SetDType(i, DType(random() % 20));
    default:
      if (i < c.n_params() && c.forms[0].params[std::size_t(i)].kind == ParamKind::kWord)
        call.SetWord(i, "no");
  }
}

TEST(Fuzz, SpoiledCallsAreAnsweredWithAText) {
  fuzz::Tries tries(1.5);
  Random& random = tries.random;
  int refused = 0;
  while (tries.Next()) {
    static const auto contracts = [] {
      std::vector<std::unique_ptr<Contract>> all;
      for (const std::string_view seed : kSeeds) all.push_back(ParseContract(seed));
      return all;
    }();
    const Contract& c = *contracts[random() % contracts.size()];
    auto g = Generate(c, random);
    ASSERT_TRUE(g);
    for (int k = int(random() % 3); k >= 0; --k) Spoil(g->call, c, random);
    Bindings b;
    ResultShape results[kMaxResults];
    std::string error;
    const int form = Check(c, g->call.frame(), &b, &error);
    const bool ok =
        form >= 0 && InferResults(c, form, b, g->call.frame(), results, &error, tries.tries() % 2);
    EXPECT_EQ(ok, error.empty()) << error;
    if (!ok) {
      ++refused;
      EXPECT_EQ(error.back() == '.' || error.back() == '?', true) << error;
    }
    InferPartial(c, g->call.frame(), random(), results, &error);
  }
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace anyop::fuzz_test
