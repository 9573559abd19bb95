// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/gradient.h"

#include "runtime/registry/library.h"
#include "runtime/registry/registry.h"
#include "runtime/testing/testing.h"

namespace anyop::gradient_test {
namespace {

// A library of operators without kernels, made by hand; each must have a name of its own.
struct Pair {
  Pair(const char* forward, const char* gradient, const char* backward) {
    op[0].signature = forward;
    op[0].gradient = gradient;
    op[1].signature = backward;
    for (anyop_op& o : op) o.size = sizeof o;
    info.size = sizeof info;
    info.abi_version = ANYOP_ABI_VERSION;
    info.name = "pair";
    info.n_ops = *backward ? 2 : 1;
    info.ops = ops;
  }
  anyop_op op[2] = {};
  const anyop_op* ops[2] = {&op[0], &op[1]};
  anyop_library_info info{};
};

std::string RegisterError(const Pair& pair) {
  int code = ANYOP_INVALID_ARGUMENT;
  std::string text = ErrorOf([&] { Register(ReadLibrary(pair.info, "pair.so")); }, &code);
  EXPECT_EQ(code, ANYOP_INVALID_ARGUMENT);
  return text;
}

// Why a gradient is refused, between the two names and the signatures.
std::string Refusal(const char* forward, const char* backward) {
  const std::string text = RegisterError(Pair(forward, "b", backward));
  const std::string start = "pair.so: pair.f: pair.b cannot be its gradient: ";
  const std::string end = std::string("\n  ") + forward + "\n  " + backward;
  EXPECT_TRUE(text.starts_with(start) && text.ends_with(end)) << text;
  if (text.size() < start.size() + end.size()) return text;
  return text.substr(start.size(), text.size() - start.size() - end.size());
}

TEST(Gradient, IsWiredByNames) {
  const Operator& op = *Find("testing.affine");
  const GradientWiring& wiring = *GradientOf(op);
  EXPECT_EQ(wiring.op, Find("testing.affine_backward"));
  ASSERT_EQ(wiring.sources.size(), 4u);
  const GradientSource expected[] = {{GradientSource::kResultGradient, 0},
                                     {GradientSource::kParam, 1},
                                     {GradientSource::kParam, 2},
                                     {GradientSource::kResult, 0}};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(wiring.sources[i].kind, expected[i].kind) << i;
    EXPECT_EQ(wiring.sources[i].index, expected[i].index) << i;
  }
  EXPECT_EQ(wiring.targets, (std::vector<int>{0, 2}));
  EXPECT_EQ(GradientOf(*wiring.op), nullptr);
}

TEST(Gradient, IsPartOfTheInformation) {
  EXPECT_NE(
      InfoJson(*Find("testing.affine"))
          .find("\"gradient\": {\"op\": \"testing.affine_backward\", \"sources\": "
                "[[\"result_gradient\", \"y\"], [\"param\", \"s\"], [\"param\", \"b\"], "
                "[\"result\", \"y\"]], \"targets\": [\"x\", \"b\"], \"words\": {}}, \"params\""),
      std::string::npos);
  EXPECT_NE(InfoJson(*Find("testing.axpy")).find("\"gradient\": null, \"params\""),
            std::string::npos);
  EXPECT_NE(InfoText(*Find("testing.affine")).find("Gradient: testing.affine_backward, of x, b\n"),
            std::string::npos);
}

TEST(Gradient, AFirstRegistrationIsTheOneThatIsWired) {
  const Pair pair("twice(x: f32[n]) -> (y: f32[n])", "twice_b",
                  "twice_b(dy: f32[n]) -> (dx: f32[n]?)");
  EXPECT_EQ(RegisterError(pair), "");
  EXPECT_EQ(RegisterError(pair), "");
  EXPECT_EQ(GradientOf(*Find("pair.twice"))->op, Find("pair.twice_b"));
  // Another file of the same library may lack what the first one brought.
  const Pair more("thrice(x: f32[n]) -> (y: f32[n])", "twice_b", "");
  EXPECT_EQ(RegisterError(more), "");
  EXPECT_EQ(GradientOf(*Find("pair.thrice"))->op, Find("pair.twice_b"));
}

TEST(Gradient, MustBeAnOperatorOfTheLibrary) {
  EXPECT_EQ(RegisterError(Pair("f(x: f32[n]) -> (y: f32[n])", "f_bakward",
                               "f_backward(dy: f32[n]) -> (dx: f32[n]?)")),
            "pair.so: pair.f: its gradient is 'f_bakward', but the library has no such operator. "
            "Did you mean 'f_backward'?");
}

TEST(Gradient, RegistersNothingIfItDoesNotFit) {
  RegisterError(Pair("half(x: f32[n]) -> (y: f32[n])", "half_b", "half_b(q: int) -> ()"));
  EXPECT_EQ(FindRegistered("pair.half"), nullptr);
  EXPECT_EQ(FindRegistered("pair.half_b"), nullptr);
}

TEST(Gradient, TakesOnlyWhatTheForwardHas) {
  EXPECT_EQ(Refusal("f(x: f32[n]) -> (y: f32[n])", "b(dy: f32[n], z: f32[n]) -> (dx: f32[n]?)"),
            "its parameter 'z' is no parameter or result of pair.f, and no 'd' with a result's "
            "name.");
  EXPECT_EQ(Refusal("f(x: f32[n]) -> (y: f32[n])", "b(x: f32[n]) -> (dx: f32[n]?)"),
            "it takes the gradient of no result.");
  EXPECT_EQ(Refusal("f(dy: f32[n]) -> (y: f32[n])", "b(dy: f32[n]) -> (ddy: f32[n]?)"),
            "its parameter 'dy' could be the gradient of 'y' or what pair.f itself calls so.");
  EXPECT_EQ(Refusal("f(x: f32[n]) -> (y: f32[n])", "b(dy: float) -> (dx: f32[1]?)"),
            "its parameter 'dy' is a tensor of pair.f, but no tensor.");
}

TEST(Gradient, TakesWhateverTheForwardTook) {
  EXPECT_EQ(
      Refusal("f(x: f32[n], k: int) -> (y: f32[n])", "b(dy: f32[n], k: float) -> (dx: f32[n]?)"),
      "its parameter 'k' is of another kind than that of pair.f.");
  EXPECT_EQ(Refusal("f(x: f32[n], w: f32[n]?) -> (y: f32[n])",
                    "b(dy: f32[n], w: f32[n]) -> (dx: f32[n]?)"),
            "its parameter 'w' must be given, but may be absent in pair.f.");
  EXPECT_EQ(Refusal("f(x: f32[n], k: 'relu' | 'none') -> (y: f32[n])",
                    "b(dy: f32[n], k: 'nine') -> (dx: f32[n]?)"),
            "its parameter 'k' may be 'nine', a word that pair.f does not know. Did you mean "
            "'none'?");
}

TEST(Gradient, ResultsAreOptionalAndOfTensors) {
  EXPECT_EQ(Refusal("f(x: f32[n]) -> (y: f32[n])", "b(dy: f32[n]) -> (dx: f32[n])"),
            "its result 'dx' must be one that a caller may decline: end its type with '?'.");
  EXPECT_EQ(Refusal("f(x: f32[n]) -> (y: f32[n])", "b(dy: f32[n]) -> (dz: f32[n]?)"),
            "its result 'dz' is no 'd' with the name of a parameter of pair.f.");
  EXPECT_EQ(Refusal("f(x: f32[n], s: float) -> (y: f32[n])", "b(dy: f32[n]) -> (ds: f32[n]?)"),
            "its result 'ds' is the gradient of a parameter that is no tensor.");
  EXPECT_EQ(Refusal("f(x: f32[n]) -> (y: f32[n])", "b(dy: f32[n]) -> ()"), "it has no result.");
}

TEST(Gradient, RepeatsTheConditionsOfItsForward) {
  constexpr const char* kForward =
      "f(x: T[n, d], k: int) -> (y: T[n]) where T in f32 | f16, d >= 1 and n % k == 0, k >= 1";
  EXPECT_EQ(Refusal(kForward,
                    "b(dy: T[n], x: T[n, d], k: int) -> (dx: T[n, d]?) where T in f32 | f16, d >= "
                    "1, k >= 1"),
            "it does not repeat the condition n%k == 0 of pair.f.");
  EXPECT_EQ(Refusal(kForward,
                    "b(dy: T[n], x: T[n, d], k: int) -> (dx: T[n, d]?) where T in f32 | bf16, "
                    "n%k == 0, d >= 1, k >= 1"),
            "it does not repeat the condition T in f32 | f16 of pair.f.");
  // Fewer dtypes, other spaces, and what the gradient does not take.
  EXPECT_EQ(RegisterError(Pair("g1(x: T[n, d], k: int) -> (y: T[n]) where T in f32 | f16, "
                               "d >= 1 and n % k == 0, k >= 1",
                               "g1_b",
                               "g1_b(dy: T[n], x: T[n, d]) -> (dx: T[n, d]?) where T in f32, "
                               "d>=1")),
            "");
}

TEST(Gradient, RepeatsWhatEveryFormThatLeadsToItAsksFor) {
  constexpr const char* kForward =
      "f(x: f32[n], w: 'a' = 'a', k: int = 1) -> (y: f32[n]) where k >= 1, n >= 2\n"
      "f(x: f32[n], w: 'b', k: int) -> (y: f32[n]) where n >= 2";
  EXPECT_EQ(Refusal(kForward, "b(dy: f32[n], w: 'a' | 'b', k: int) -> (dx: f32[n]?)"),
            "it does not repeat the condition n >= 2 of pair.f.");
  EXPECT_EQ(Refusal(kForward, "b(dy: f32[n], w: 'a', k: int) -> (dx: f32[n]?) where n >= 2"),
            "it does not repeat the condition k >= 1 of pair.f.");
  EXPECT_EQ(RegisterError(Pair(
                "g2(x: f32[n], w: 'a' = 'a', k: int = 1) -> (y: f32[n]) where k >= 1, n >= 2\n"
                "g2(x: f32[n], w: 'b', k: int) -> (y: f32[n]) where n >= 2",
                "g2_b", "g2_b(dy: f32[n], w: 'a' | 'b', k: int) -> (dx: f32[n]?) where n >= 2")),
            "");
}

TEST(Gradient, PlannedTensorsArePlannedThereToo) {
  const char* const forward = "f(x: f32[n], at: planned i64[n]) -> (y: f32[n])";
  EXPECT_EQ(Refusal(forward, "b(dy: f32[n], at: i64[n]) -> (dx: f32[n]?)"),
            "its parameter 'at' is not planned, but is in pair.f.");
  EXPECT_EQ(Refusal("f(x: f32[n], at: i64[n]) -> (y: f32[n])",
                    "b(dy: f32[n], at: planned i64[n]) -> (dx: f32[n]?)"),
            "its parameter 'at' is planned, but not in pair.f.");
  EXPECT_EQ(Refusal("f(x: f32[n]) -> (y: f32[n], at: i64[n])",
                    "b(dy: f32[n], at: planned i64[n]) -> (dx: f32[n]?)"),
            "its parameter 'at' is planned, but a result of pair.f or its gradient, which lie on "
            "the device of a call.");
}

TEST(Gradient, DoesWithoutWhatIsWritten) {
  const char* const kForward = "f(x: f32[n], state: mut f32[n]) -> (y: f32[n])";
  EXPECT_EQ(RegisterError(Pair("w1(x: f32[n], state: mut f32[n]) -> (y: f32[n])", "w1_b",
                               "w1_b(dy: f32[n], x: f32[n]) -> (dx: f32[n]?)")),
            "");
  EXPECT_EQ(Refusal(kForward, "b(dy: f32[n], state: f32[n]) -> (dx: f32[n]?)"),
            "its parameter 'state' is written by pair.f, and what was there before is gone.");
  EXPECT_EQ(Refusal(kForward, "b(dy: f32[n]) -> (dstate: f32[n]?)"),
            "its result 'dstate' is the gradient of a parameter that pair.f writes.");
  EXPECT_EQ(Refusal("f(x: f32[n]) -> (y: f32[n])", "b(dy: mut f32[n]) -> (dx: f32[n]?)"),
            "it writes its parameter 'dy'.");
}

}  // namespace
}  // namespace anyop::gradient_test
