// SPDX-License-Identifier: Apache-2.0
// Files that are nearly those of `anyop tune`.
#include "platform/hash_bytes.h"
#include "platform/testing/fuzz.h"
#include "runtime/plan/tuned.h"
#include "runtime/testing/testing.h"

namespace anyop::tuned_fuzz_test {
namespace {

const std::string kMachine = "A processor\tavx2 fma";

std::string Written() {
  return FormatTuned(kMachine, {{"testing.spin", "1.0", "0123", "T=bf16, form 2", "cpu_dot",
                                 "cpu_split", 1200.5, 3400},
                                {"b.more", "", "4567", "", "one", "two", 0.5, 0}});
}

// Choices, which every process then looks up, or a reason that names what is wrong.
TEST(TunedFuzz, AFileIsReadOrRefused) {
  const std::string whole = Written();
  const std::size_t digest = whole.rfind("digest\t");
  const std::vector<std::string> others = {"choice", "machine", "digest",   "\t",
                                           "\n",     "anyop",   "tuned",    std::string(1, '\0'),
                                           "\xff",   "1.0",     "choice\t", "\n\n"};
  fuzz::Tries tries(1);
  std::uint64_t read = 0, refused = 0;
  while (tries.Next()) {
    std::string text = fuzz::Mutated(whole.substr(0, digest), tries.random, others);
    if (tries.random() % 4 == 0) text = fuzz::LinesMoved(text, tries.random);
    if (tries.random() % 8) {
      text += "digest\t" + DigestOf(HashBytes(text.data(), text.size())) + "\n";
    } else {
      text += fuzz::Mutated(whole.substr(digest), tries.random, others);
    }
    if (tries.random() % 16 == 0) text.resize(fuzz::Below(tries.random, text.size() + 1));
    std::vector<TunedChoice> choices;
    const std::string problem = ParseTuned(text, kMachine, &choices);
    (problem.empty() ? read : refused) += 1;
    EXPECT_TRUE(problem.empty() || choices.empty()) << problem;
    const TunedTable table(choices);
    for (const TunedChoice& c : choices) {
      EXPECT_NE(table.Find(c.op, c.call, c.first, c.second), nullptr);
      EXPECT_TRUE(c.first_ns >= 0 && c.second_ns >= 0) << text;
      WhyStale(c);
    }
    // What is read is written so that it reads the same.
    std::vector<TunedChoice> again;
    const std::string rewritten = FormatTuned(kMachine, choices);
    EXPECT_EQ(ParseTuned(rewritten, kMachine, &again), "") << text;
    EXPECT_EQ(again.size(), choices.size());
  }
  EXPECT_GT(read, 0u);
  EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace anyop::tuned_fuzz_test
