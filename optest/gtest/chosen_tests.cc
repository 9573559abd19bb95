// SPDX-License-Identifier: Apache-2.0
#include "optest/gtest/chosen_tests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>

namespace anyop::optest {
namespace {

constinit std::span<const TestFile> joined_files;

bool IsIn(const testing::TestInfo& test, std::string_view source) {
  const std::string_view file = test.file();
  return file == source ||
         (file.ends_with(source) && file.substr(0, file.size() - source.size()).ends_with('/'));
}

}  // namespace

JoinedFiles::JoinedFiles(std::span<const TestFile> files) { joined_files = files; }

std::string FilterOf(std::string_view program, std::span<const TestFile> files,
                     const std::string& asked) {
  const std::string_view name = program.substr(program.rfind('/') + 1);
  const auto file = std::ranges::find(files, name, &TestFile::name);
  if (file == files.end()) return asked;
  std::set<std::string> own, others;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      (IsIn(test, file->source) ? own : others)
          .insert(std::string(suite.name()) + "." + test.name());
    }
  }
  const std::string of = std::string(name) + ": " + std::string(file->source);
  if (own.empty()) throw std::runtime_error(of + " has no tests");
  std::string left_out;
  for (const std::string& test : others) {
    if (own.contains(test)) throw std::runtime_error(of + " and another file have a " + test);
    left_out += ":" + test;
  }
  if (others.empty()) return asked;
  const bool has_minus = asked.find('-') != std::string::npos;
  return asked + (has_minus ? left_out : "-" + left_out.substr(1));
}

void ChooseTests(std::string_view program) {
  GTEST_FLAG_SET(filter, FilterOf(program, joined_files, GTEST_FLAG_GET(filter)));
}

}  // namespace anyop::optest
