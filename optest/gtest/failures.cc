// SPDX-License-Identifier: Apache-2.0
#include "optest/failures.h"

#include <gtest/gtest.h>

namespace anyop::optest {

void Fail(const std::string& text) { ADD_FAILURE() << text; }
bool HasFailed() { return testing::Test::HasFailure(); }

}  // namespace anyop::optest
