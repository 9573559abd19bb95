// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/diff.h"

#include <gtest/gtest.h>

namespace anyop::diff_test {
namespace {

TEST(UnifiedDiff, IsEmptyForEqualTexts) {
  EXPECT_EQ(UnifiedDiff("", ""), "");
  EXPECT_EQ(UnifiedDiff("a\nb\n", "a\nb\n"), "");
}

TEST(UnifiedDiff, ShowsChangesWithThreeLinesAround) {
  EXPECT_EQ(UnifiedDiff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
}

TEST(UnifiedDiff, KeepsNearChangesTogetherAndFarOnesApart) {
  const std::string a = "a\n1\n2\n3\n4\n5\n6\nb\n";
  EXPECT_EQ(UnifiedDiff(a, "A\n1\n2\n3\n4\n5\n6\nB\n"),
            "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n");
  EXPECT_EQ(UnifiedDiff("0\n" + a, "a\n1\n2\n3\n4\n5\n6\n"),
            "@@ -1,4 +1,3 @@\n-0\n a\n 1\n 2\n@@ -6,4 +5,3 @@\n 4\n 5\n 6\n-b\n");
}

TEST(UnifiedDiff, TellsWhatIsAddedAndRemoved) {
  EXPECT_EQ(UnifiedDiff("", "x\n"), "@@ -1,0 +1,1 @@\n+x\n");
  EXPECT_EQ(UnifiedDiff("x\n", ""), "@@ -1,1 +1,0 @@\n-x\n");
  EXPECT_EQ(UnifiedDiff("a\nb\nc\n", "a\nc\n"), "@@ -1,3 +1,2 @@\n a\n-b\n c\n");
}

}  // namespace
}  // namespace anyop::diff_test
