// SPDX-License-Identifier: Apache-2.0
// The main() of operators' tests: loads their references, runs, and tells what was skipped.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "optest/gtest/chosen_tests.h"
#include "optest/running.h"
#include "optest/session.h"
#include "runtime/registry/registry.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    anyop::optest::ReadFlags(&argc, argv);
    anyop::optest::ChooseTests(argv[0]);
    anyop::LoadReferences(anyop::LibraryFolder() + "anyop_ops_reference.so");
    // The device of CheckDevices, unless the environment brings another.
    if (!std::getenv("ANYOP_LOAD")) anyop::Load(anyop::LibraryFolder() + "../tests/anyop_far.so");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
  anyop::optest::ReportCrashes();
  const int failed = RUN_ALL_TESTS();
  anyop::optest::PrintTally();
  return failed;
}
