// SPDX-License-Identifier: Apache-2.0
// Signatures that are long in one way: thousands of terms, brackets, conditions, words. Each is
// parsed or refused with a caret, and what is parsed is shown, checked and evaluated.
#include "platform/testing/fuzz.h"
#include "signature/check.h"
#include "signature/facts.h"
#include "signature/generate.h"
#include "signature/symbolic.h"

namespace anyop::chains_fuzz_test {
namespace {

std::string Repeated(std::string_view part, std::size_t times) {
  std::string text;
  for (; times > 0; --times) text += part;
  return text;
}

// "n + n*2 - (n) ...": `terms` of them, now and then deep in brackets.
std::string Chain(fuzz::Random& random, std::size_t terms) {
  const std::vector<std::string> parts = {"n", "2", "m", "min(n, m)", "ceil_div(n, 2)", "n*m", "0"};
  const std::vector<std::string> signs = {" + ", "*", " - ", " % ", "/", "+-"};
  const bool is_same = random() % 2;
  const std::string part = fuzz::OneOf(random, parts), sign = fuzz::OneOf(random, signs);
  const std::size_t deep = random() % 3 ? 0 : fuzz::Below(random, terms);
  std::string text = Repeated("(", deep) + part;
  for (; terms > 0; --terms) {
    text += is_same ? sign + part : fuzz::OneOf(random, signs) + fuzz::OneOf(random, parts);
  }
  return text + Repeated(")", random() % 20 ? deep : fuzz::Below(random, deep));
}

std::string Conditions(fuzz::Random& random, std::size_t terms) {
  const std::vector<std::string> parts = {"n >= 1", "n < m", "not n == 2", "(n >= 1)", "T == f32"};
  const std::vector<std::string> signs = {" and ", " or ", ", "};
  const bool is_same = random() % 2;
  const std::string part = fuzz::OneOf(random, parts), sign = fuzz::OneOf(random, signs);
  std::string text = Repeated(random() % 2 ? "not " : "(", random() % 3 ? 0 : terms) + part;
  for (; terms > 0; --terms) {
    text += is_same ? sign + part : fuzz::OneOf(random, signs) + fuzz::OneOf(random, parts);
  }
  return text;
}

std::string Signature(fuzz::Random& random) {
  constexpr std::size_t kLengths[] = {1, 10, 100, 1000, 5000, 20000};
  const std::size_t terms = fuzz::Below(random, kLengths[fuzz::Below(random, 6)]) + 1;
  const std::string head = "f(x: T[n, m], k: int = 1) -> ";
  switch (fuzz::Below(random, 6)) {
    case 0:
      return head + "(y: T[" + Chain(random, terms) + "]) where T in f32";
    case 1:
      return head + "(y: T[n]) where T in f32, " + Conditions(random, terms);
    case 2:
      return "f(x: T[" + Chain(random, terms) + "]) -> (y: T[1]) where T in f32";
    case 3:
      return "f(x: T[n, m], w: 'a'" + Repeated(" | 'b'", terms) + ") -> (y: T[n]) where T in f32";
    case 4:
      return "f(x: T[n]" + Repeated(", y: T[n]", terms) + ") -> (y: T[n]) where T in f32";
    default:
      return head + "(y: T[n]) where T in f32" + Repeated("\n" + head + "(y: T[m])", terms);
  }
}

TEST(ChainsFuzz, AreParsedOrRefused) {
  fuzz::Tries tries(3);
  int parsed = 0;
  while (tries.Next()) {
    const std::string text = Signature(tries.random);
    std::unique_ptr<Contract> contract;
    parsed += fuzz::IsAnswered([&] { contract = ParseContract(text); },
                               [](const std::string& e) { return e.find('^') != e.npos; });
    if (!contract) continue;
    EXPECT_EQ(FactsOf(*contract).declined_without.size(), std::size_t(contract->n_results()));
    EXPECT_FALSE(ContractJson(*contract).empty());
    GenerateOptions options;
    options.tries = 2;
    Generate(*contract, tries.random, options);
  }
  EXPECT_GT(parsed, 0);
}

}  // namespace
}  // namespace anyop::chains_fuzz_test
