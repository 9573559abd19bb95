// SPDX-License-Identifier: Apache-2.0
// The main() of operators' tests, and of the program that tests packages: loads the operators and
// their references, runs, and tells what was skipped.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>

#include "optest/chosen_tests.h"
#include "optest/kernel_run.h"
#include "optest/package_tests.h"
#include "optest/session.h"
#include "runtime/registry.h"

// A library's build defines where its operators and references are; the built-in ones lie beside
// libanyop.
#ifndef ANYOP_TEST_LIBRARY
#define ANYOP_TEST_LIBRARY ""
#define ANYOP_TEST_REFERENCE anyop::LibraryFolder() + "anyop_ops_reference.so"
#elif !defined(ANYOP_TEST_REFERENCE)
#define ANYOP_TEST_REFERENCE ""
#endif

namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

// LIBRARY REFERENCES FACTS: files; the last two may be "". The rest of the command line was flags.
bool MadePackageTests(int argc, char** argv) {
  if (argc < 4) return false;
  anyop::optest::MakePackageTests({argv[1], argv[2], *argv[3] ? ReadAll(argv[3]) : ""});
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    anyop::optest::ReadFlags(&argc, argv);
    anyop::optest::ChooseTests(argv[0]);
    if (!MadePackageTests(argc, argv)) {
      if (*ANYOP_TEST_LIBRARY) anyop::Load(ANYOP_TEST_LIBRARY);
      const std::string references = ANYOP_TEST_REFERENCE;
      if (!references.empty()) anyop::LoadReferences(references);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
  anyop::optest::PrintNoteOnCrash();
  const int failed = RUN_ALL_TESTS();
  const anyop::optest::Tally& tally = anyop::optest::ReadTally();
  std::printf("%d kernel runs, %lld elements compared", tally.calls, (long long)tally.elements);
  if (tally.left_out) std::printf("; %d large calls left out (--exhaustive)", tally.left_out);
  if (tally.directions) std::printf("; gradients along %d directions", tally.directions);
  std::printf("\n");
  for (const auto& [kernel, calls] : tally.ran) std::printf("  %s: %d\n", kernel.c_str(), calls);
  for (const auto& [kernel, reason] : tally.skipped) {
    std::printf("  %s: skipped, %s\n", kernel.c_str(), reason.c_str());
  }
  return failed;
}
