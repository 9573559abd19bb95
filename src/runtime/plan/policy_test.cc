// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/policy.h"

#include "runtime/testing/testing.h"

namespace anyop::policy_test {
namespace {

std::string PolicyError(const char* text) {
  return ErrorOf([&] { ParsePolicy(text); });
}

TEST(Policy, HasOneObjectPerMeaning) {
  EXPECT_EQ(ParsePolicy("all, -testing.axpy"), ParsePolicy("-testing.axpy,all"));
  EXPECT_NE(ParsePolicy("-testing.axpy"), ParsePolicy("+testing.axpy"));
  EXPECT_EQ(ParsePolicy("")->number, 0u);
}

TEST(Policy, RefusesContradictions) {
  EXPECT_EQ(PolicyError("all,none"), "policy 'all,none': all and none contradict.");
  EXPECT_EQ(PolicyError("+testing.axpy,-testing.axpy"),
            "policy '+testing.axpy,-testing.axpy': it says two things about testing.axpy.");
  EXPECT_EQ(PolicyError("testing.axpy=cpu_f32,testing.axpy=cpu_f64"),
            "policy 'testing.axpy=cpu_f32,testing.axpy=cpu_f64': it says two things about "
            "testing.axpy.");
}

TEST(Policy, NamesTheNearestOfUnknownNames) {
  EXPECT_EQ(PolicyError("nnone"),
            "policy 'nnone': 'nnone' must be all, none, +operator, -operator or operator=kernel. "
            "Did you mean 'none'?");
  EXPECT_EQ(PolicyError("-testing.axpi"),
            "policy '-testing.axpi': there is no operator 'testing.axpi'. Did you mean "
            "'testing.axpy'?");
  EXPECT_EQ(PolicyError("testing.scale=cpu_f23"),
            "policy 'testing.scale=cpu_f23': testing.scale has no kernel 'cpu_f23', only cpu_f32. "
            "Did you mean 'cpu_f32'?");
  EXPECT_EQ(PolicyError("all,,none"), "policy 'all,,none': there is nothing between two commas.");
  EXPECT_EQ(PolicyError("-"), "policy '-': an operator's name is missing.");
  EXPECT_EQ(PolicyError("testing.axpy=cpu_f32,testing.axpy=cpu_f64"),
            "policy 'testing.axpy=cpu_f32,testing.axpy=cpu_f64': it says two things about "
            "testing.axpy.");
}

TEST(Policy, InnerScopesGoOverOuterOnes) {
  const Policy* outer = ParsePolicy("none,+testing.axpy");
  const Policy* both = Combine(outer, ParsePolicy("-testing.axpy,testing.scale=cpu"));
  EXPECT_EQ(both->text, "none,-testing.axpy,testing.scale=cpu");
  EXPECT_EQ(Combine(outer, ParsePolicy("all"))->text, "all");
}

TEST(Policy, MatchesNamesAndTheirBeginnings) {
  Operator op;
  op.kernels.resize(3);
  op.kernels[0].name = "cpu_avx512_bf16";
  op.kernels[1].name = "cpu_avx512_vnni_i8";
  op.kernels[2].name = "cpu_f32";
  EXPECT_TRUE(NameMatches(op, "cpu_avx512_bf16", "cpu_avx512"));
  EXPECT_TRUE(NameMatches(op, "cpu_f32", "cpu_f32"));
  EXPECT_FALSE(NameMatches(op, "cpu_f32", "cpu_f3"));
  op.kernels[2].name = "cpu_avx512";  // a name of its own is no beginning
  EXPECT_TRUE(NameMatches(op, "cpu_avx512", "cpu_avx512"));
  EXPECT_FALSE(NameMatches(op, "cpu_avx512_bf16", "cpu_avx512"));
}

TEST(Policy, EndsWithItsScope) {
  const Policy* before = CurrentPolicy();
  {
    Scope scope;
    scope.policy("none");
    EXPECT_EQ(CurrentPolicy()->text, "none");
  }
  EXPECT_EQ(CurrentPolicy(), before);
}

TEST(Policy, MayNameLibrariesThatAreNotLoadedYet) { EXPECT_EQ(PolicyError("-later.op"), ""); }

TEST(Policy, OfTheProcessIsUnderEveryScope) {
  SetProcessPolicy("testing.axpy=cpu_f32");
  const Array x = Array::Zeros({32}, DType::kF32);
  ResetCounters();
  (void)Call("testing.axpy", 1.0, x, x).run();
  SetProcessPolicy("");
  EXPECT_EQ(CountersFor("testing.axpy", "cpu_f32").calls, 1u);
}

}  // namespace
}  // namespace anyop::policy_test
