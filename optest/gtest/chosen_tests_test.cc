// SPDX-License-Identifier: Apache-2.0
#include "optest/gtest/chosen_tests.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace anyop::optest::chosen_tests_test {
namespace {

constexpr TestFile kFiles[] = {{"own", "optest/gtest/chosen_tests_test.cc"},
                               {"none", "tests_test.cc"}};  // the end of another's name

// The suites of this file, which gtest knows by the name of a fixture.
class OfThisFile : public testing::Test {};

TEST_F(OfThisFile, IsChosenByTheNameOfTheProgram) {
  const std::string filter = FilterOf("build/tests/own", kFiles, "*");
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      const std::string name = std::string(suite.name()) + "." + test.name();
      const bool is_left_out = (filter.substr(1) + ":").find(name + ":") != std::string::npos;
      EXPECT_EQ(is_left_out, std::string_view(suite.name()) != "OfThisFile") << name;
    }
  }
}

TEST_F(OfThisFile, ComesOnTopOfWhatWasAskedFor) {
  EXPECT_TRUE(FilterOf("own", kFiles, "A.*").starts_with("A.*"));
  EXPECT_TRUE(FilterOf("own", kFiles, "A.*-A.x").starts_with("A.*-A.x"));
  EXPECT_EQ(FilterOf("own", kFiles, "-A.x").find('-', 1), std::string::npos);
}

TEST_F(OfThisFile, IsNotChosenByAnotherName) {
  EXPECT_EQ(FilterOf("build/tests/joined", kFiles, "A.*"), "A.*");
  EXPECT_EQ(FilterOf("own", {}, "A.*"), "A.*");
}

TEST_F(OfThisFile, MustHaveTests) {
  EXPECT_THROW(FilterOf("none", kFiles, "*"), std::runtime_error);
}

}  // namespace
}  // namespace anyop::optest::chosen_tests_test
