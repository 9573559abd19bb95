// SPDX-License-Identifier: Apache-2.0
// What is wrong with an operator goes to whoever runs the checks: to GoogleTest in this project's
// own tests (gtest/failures.cc), to the list of anyop-optest in a package's (package_main.cc).
#pragma once
#include <string>

namespace anyop::optest {

// The test that is running has failed.
void Fail(const std::string& text);
bool HasFailed();

}  // namespace anyop::optest
