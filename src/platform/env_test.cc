// SPDX-License-Identifier: Apache-2.0
#include "platform/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "platform/error.h"

namespace anyop::env_test {
namespace {

// Sets a variable until the end of the block.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name_); }

 private:
  const char* name_;
};

template <class F>
std::string ErrorOf(F f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, ANYOP_INVALID_ARGUMENT);
    return e.what();
  }
  return "";
}

TEST(Environment, GivesTheDefaultOfWhatIsNotSet) {
  unsetenv("ANYOP_PLAN_CACHE");
  EXPECT_EQ(EnvironmentInteger("ANYOP_PLAN_CACHE"), 256);
  EXPECT_EQ(EnvironmentInteger("ANYOP_THREADS"), 0);
  EXPECT_FALSE(EnvironmentFlag("ANYOP_STRICT"));
}

TEST(Environment, TakesAnEmptyValueForUnset) {
  Setting s("ANYOP_PLAN_CACHE", "");
  EXPECT_EQ(EnvironmentInteger("ANYOP_PLAN_CACHE"), 256);
}

TEST(Environment, ReadsWhatIsSet) {
  Setting s("ANYOP_THREADS", "3");
  Setting t("ANYOP_STRICT", "1");
  EXPECT_EQ(EnvironmentInteger("ANYOP_THREADS"), 3);
  EXPECT_TRUE(EnvironmentFlag("ANYOP_STRICT"));
  EXPECT_NO_THROW(CheckEnvironment());
}

TEST(Environment, ListsTheGoodValuesWhenOneIsBad) {
  Setting s("ANYOP_ISA", "avx1024");
  const std::string text =
      "the environment variable ANYOP_ISA is 'avx1024', but must be portable | avx2 | avx512 | "
      "native.";
  EXPECT_EQ(ErrorOf([] { Environment("ANYOP_ISA"); }), text);
  EXPECT_EQ(ErrorOf([] { CheckEnvironment(); }), text);
}

TEST(Environment, RefusesNumbersThatAreNone) {
  for (const char* bad : {"0", "-1", "2x", "1.5", " 2", "99999999999999999999"}) {
    Setting s("ANYOP_THREADS", bad);
    EXPECT_EQ(ErrorOf([] { CheckEnvironment(); }), "the environment variable ANYOP_THREADS is '" +
                                                       std::string(bad) +
                                                       "', but must be integer >= 1.");
  }
}

TEST(Environment, NamesTheNearestOfAnUnknownVariable) {
  Setting s("ANYOP_THREAD", "3");
  EXPECT_EQ(ErrorOf([] { CheckEnvironment(); }),
            "the environment variable ANYOP_THREAD is set, but anyop has no such variable. Did you "
            "mean 'ANYOP_THREADS'?");
}

TEST(Environment, ACacheFolderIsOursOrInTheUsers) {
  const Setting home("HOME", "/home/me"), none("XDG_CACHE_HOME", "");
  EXPECT_EQ(CacheFolder(), "/home/me/.cache/anyop");
  const Setting users("XDG_CACHE_HOME", "/caches");
  EXPECT_EQ(CacheFolder(), "/caches/anyop");
  const Setting ours("ANYOP_CACHE", "/ours");
  EXPECT_EQ(CacheFolder(), "/ours");
  const Setting no_ours("ANYOP_CACHE", ""), no_users("XDG_CACHE_HOME", ""), no_home("HOME", "");
  EXPECT_EQ(CacheFolder(), "");
}

TEST(Environment, HasASentenceForEveryVariable) {
  for (const EnvironmentVariable& v : EnvironmentVariables()) {
    EXPECT_TRUE(v.name.starts_with("ANYOP_")) << v.name;
    EXPECT_TRUE(v.sentence.ends_with('.')) << v.name;
  }
}

}  // namespace
}  // namespace anyop::env_test
