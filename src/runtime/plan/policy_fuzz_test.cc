// SPDX-License-Identifier: Apache-2.0
// Texts that are nearly policies.
#include "platform/testing/fuzz.h"
#include "runtime/plan/policy.h"
#include "runtime/testing/testing.h"

namespace anyop::policy_fuzz_test {
namespace {

TEST(PolicyFuzz, IsParsedOrRefused) {
  const std::vector<std::string> words = {"all",
                                          "none",
                                          "+",
                                          "-",
                                          "=",
                                          ",",
                                          " ",
                                          "testing.axpy",
                                          "testing.scale",
                                          "testing.",
                                          "axpy",
                                          "cpu_f32",
                                          "cpu",
                                          "cpu_",
                                          "\n",
                                          std::string(1, '\0'),
                                          "\xff",
                                          "all,-testing.scale"};
  fuzz::Tries tries(1);
  int parsed = 0;
  while (tries.Next()) {
    std::string text;
    for (std::size_t k = fuzz::Below(tries.random, 9); k > 0; --k) {
      text += fuzz::OneOf(tries.random, words);
    }
    parsed += fuzz::IsAnswered(
        [&] {
          const Policy* policy = ParsePolicy(text);
          EXPECT_EQ(ParsePolicy(policy->text), policy) << text;
        },
        [&](const std::string& error) { return error.starts_with("policy '"); });
  }
  EXPECT_GT(parsed, 0);
}

}  // namespace
}  // namespace anyop::policy_fuzz_test
