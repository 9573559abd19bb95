// SPDX-License-Identifier: Apache-2.0
#include "platform/error.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace anyop::error_test {
namespace {

using Words = std::vector<std::string>;

TEST(Nearest, IsAWordOfWhichAThirdMayDiffer) {
  const Words known = {"rms_norm", "cast", "softmax", "cache", "x"};
  EXPECT_EQ(Nearest("rms_nrm", known), "rms_norm");
  EXPECT_EQ(Nearest("cahce", known), "cache");
  EXPECT_EQ(Nearest("cash", Words{"cache"}), "cache");
  EXPECT_EQ(Nearest("sofmtax", known), "softmax");
  for (const char* far : {"nosuch", "y", "", "silu", "norm", "rmsnorms_of_x"}) {
    EXPECT_EQ(Nearest(far, known), "") << far;
  }
}

TEST(Nearest, LooksBehindTheLibraryThatBothAreOf) {
  const Words known = {"anyop.cast", "testing.scale", "a.b.relu"};
  EXPECT_EQ(Nearest("anyop.nosuch", known), "");
  EXPECT_EQ(Nearest("testing.pick", known), "");
  EXPECT_EQ(Nearest("anyop.csat", known), "anyop.cast");
  EXPECT_EQ(Nearest("tesing.scale", known), "testing.scale");
  EXPECT_EQ(Nearest("a.b.rleu", known), "a.b.relu");
}

TEST(NearOrAll, ListsAllWordsWithoutANearOne) {
  EXPECT_EQ(NearOrAll("esp", Words{"x", "eps"}), " Did you mean 'eps'?");
  EXPECT_EQ(NearOrAll("y", Words{"x", "eps", "out"}), " Try x, eps or out.");
  EXPECT_EQ(NearOrAll("y", Words{"x"}), " Try x.");
  EXPECT_EQ(NearOrAll("y", Words{}), "");
}

}  // namespace
}  // namespace anyop::error_test
