// SPDX-License-Identifier: Apache-2.0
#include "platform/cpu.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace anyop::cpu_test {
namespace {

std::set<std::string> KernelFlags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

TEST(Cpu, AgreesWithTheOperatingSystem) {
#ifdef ANYOP_EMULATED
  GTEST_SKIP() << "/proc/cpuinfo tells of the machine beneath the emulated one";
#endif
  const std::set<std::string> flags = KernelFlags();
  if (flags.empty()) GTEST_SKIP() << "no flags in /proc/cpuinfo";
  const auto& features = MachineFeatures();
  for (const char* name : {"avx2", "fma", "f16c", "bmi2", "avx512f", "avx512bw", "avx512dq",
                           "avx512vl", "avx512cd", "avx512_bf16", "avx512_vnni", "avx512_fp16",
                           "avx_vnni", "amx_tile", "amx_bf16", "amx_int8"}) {
    EXPECT_EQ(std::count(features.begin(), features.end(), name), flags.count(name)) << name;
  }
}

#ifdef __aarch64__
TEST(Cpu, HasNeon) { EXPECT_TRUE(HasFeature("neon")); }
#endif

TEST(Cpu, NamesTheFirstMissingFeature) {
  EXPECT_EQ(MissingFeature(""), "");
  EXPECT_EQ(MissingFeature("teleport,avx2"), "teleport");
  for (const std::string& f : CpuFeatures()) {
    EXPECT_TRUE(HasFeature(f));
    EXPECT_EQ(MissingFeature(f), "");
    EXPECT_EQ(MissingFeature(f + ",teleport"), "teleport");
  }
}

TEST(Cpu, HasAName) { EXPECT_FALSE(CpuName().empty()); }

TEST(Cpu, HasCachesThatGrow) {
  const CacheSizes& c = Caches();
  if (c.l1d == 0) GTEST_SKIP() << "the system does not tell cache sizes";
  EXPECT_GE(c.l1d, 4096);
  EXPECT_LE(c.l1d, c.l2);
}

TEST(Cpu, HasAtLeastOneCore) { EXPECT_GE(AvailableCores(), 1); }

using CpuDeathTest = ::testing::Test;  // the cap is read once: each in a process of its own

void ExitWithFeatureCount(const char* isa) {
  setenv("ANYOP_ISA", isa, 1);
  for (const std::string& f : CpuFeatures()) {
    const bool is_wide = f.starts_with("avx512") || f.starts_with("amx");
    if (std::string(isa) == "avx2" && is_wide) std::exit(1);
    if (std::string(isa) == "avx512" && f == "avx512_bf16") std::exit(1);
  }
  std::exit(std::string(isa) == "portable" ? int(CpuFeatures().size()) : 0);
}

TEST(CpuDeathTest, AnyopIsaCapsTheFeatures) {
#ifdef ANYOP_EMULATED
  GTEST_SKIP() << "the emulated machine cannot start a second program";
#endif
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const char* isa : {"portable", "avx2", "avx512"}) {
    EXPECT_EXIT(ExitWithFeatureCount(isa), testing::ExitedWithCode(0), "") << isa;
  }
}

#ifdef __x86_64__
// Linux refuses tiles where their data would not fit a thread's signal stack.
void ExitWithTilesOnASmallSignalStack() {
  static char memory[4096];
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = sizeof(memory);
  if (sigaltstack(&stack, nullptr) != 0) std::exit(2);
  std::exit(HasFeature("amx_tile") || HasFeature("amx_bf16"));
}

TEST(CpuDeathTest, HasNoTilesWhereASignalStackIsTooSmall) {
#if defined(ANYOP_EMULATED) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the machine is emulated, or a sanitizer has a signal stack";
#endif
  if (!KernelFlags().count("amx_tile")) GTEST_SKIP() << "no AMX here";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(ExitWithTilesOnASmallSignalStack(), testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace anyop::cpu_test
