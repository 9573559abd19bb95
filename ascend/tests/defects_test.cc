// SPDX-License-Identifier: Apache-2.0
// Every planted defect is found, with its kind and its places; the right version of the same kernel
// gives no finding in any order of blocks.
#include "defects.h"

#include <gtest/gtest.h>

#include "on_core.h"

namespace ascend_tests {

int here_line = 0;
int there_line = 0;

namespace {

std::vector<Defect> All() {
  std::vector<Defect> all;
  for (auto list : {RaceDefects(), QueueDefects(), AccessDefects(), BlockDefects(), UseDefects()})
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

nlohmann::json FindingsOf(const Defect& defect, bool is_broken, bool is_strict,
                          std::uint64_t seed) {
  Configure(is_strict, seed, nullptr, 5000);
  anyop_ascend_clear();
  Global<float> x("x", kElements, ANYOP_ASCEND_READ);
  Global<float> y("y", kElements, ANYOP_ASCEND_READ | ANYOP_ASCEND_WRITE);
  std::fill_n(x.data(), kElements, 1.0f);
  std::fill_n(y.data(), kElements, 0.0f);
  here_line = there_line = 0;
  anyop_ascend_start(defect.name, defect.kernel, defect.blocks)(x.address(), y.address(),
                                                                is_broken);
  nlohmann::json found = Findings();
  anyop_ascend_clear();
  return found;
}

class PlantedDefect : public ::testing::TestWithParam<Defect> {};

TEST_P(PlantedDefect, IsFound) {
  const Defect& defect = GetParam();
  const nlohmann::json found = FindingsOf(defect, true, defect.is_strict, 0);
  bool is_found = false;
  for (const auto& finding : found) {
    if (finding["kind"] != defect.kind || finding["line"] != here_line) continue;
    if (finding["there_line"] != (defect.has_there ? there_line : 0)) continue;
    if (defect.is_strict) {
      EXPECT_EQ(finding["level"], "strict");
    }
    EXPECT_GE(finding["count"], 1);
    is_found = true;
  }
  EXPECT_TRUE(is_found) << "no " << defect.kind << " at line " << here_line << " with line "
                        << there_line << ", but: " << found.dump(1);
  for (const auto& finding : found) EXPECT_EQ(finding["kind"], defect.kind) << found.dump(1);
}
TEST(PlantedDefects, OfOrdersThatTheCompilerInsertsAreFoundInStrictModeOnly) {
  int count = 0;
  for (const Defect& defect : All()) {
    if (!defect.is_strict) continue;
    const nlohmann::json found = FindingsOf(defect, true, false, 0);
    EXPECT_TRUE(found.empty()) << found.dump(1);
    ++count;
  }
  EXPECT_EQ(count, 5);
}
TEST_P(PlantedDefect, IsFoundInEveryOrderOfBlocks) {
  const Defect& defect = GetParam();
  for (std::uint64_t seed = 1; seed <= (defect.blocks > 1 ? 32 : 1); ++seed) {
    const nlohmann::json found = FindingsOf(defect, true, defect.is_strict, seed);
    EXPECT_FALSE(found.empty()) << "seed " << seed;
    for (const auto& finding : found) EXPECT_EQ(finding["kind"], defect.kind) << found.dump(1);
  }
}
TEST_P(PlantedDefect, IsNotFoundWhereThereIsNone) {
  for (const bool is_strict : {false, true}) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      const nlohmann::json found = FindingsOf(GetParam(), false, is_strict, seed);
      EXPECT_TRUE(found.empty()) << "strict " << is_strict << ", seed " << seed << ": "
                                 << found.dump(1);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, PlantedDefect, ::testing::ValuesIn(All()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace ascend_tests
