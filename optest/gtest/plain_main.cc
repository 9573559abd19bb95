// SPDX-License-Identifier: Apache-2.0
// The main() of tests that call no operators' kernels.
#include <gtest/gtest.h>

#include <cstdio>
#include <exception>

#include "optest/gtest/chosen_tests.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    anyop::optest::ChooseTests(argv[0]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
  return RUN_ALL_TESTS();
}
