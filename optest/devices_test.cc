// SPDX-License-Identifier: Apache-2.0
// Every operator on the device for tests (devices/far), data as the signature alone allows them:
// what an operator's own .check refuses is refused there, too. The operators' own tests run the
// calls that they repair.
#include <algorithm>

#include "anyop/stream.h"
#include "optest/optest.h"
#include "runtime/registry/registry.h"
#include "runtime/run/call.h"

namespace anyop::optest::devices_test {
namespace {

class EveryOperator : public ::testing::TestWithParam<int> {};
constexpr int kParts = 8;  // of the operators, so that a failure leaves the others
constexpr std::string_view kTesting = "testing";  // some of its operators are wrong

TEST_P(EveryOperator, RunsOnTheDeviceForTests) {
  const std::vector<Operator*> operators = Operators();
  ASSERT_FALSE(Devices().empty());
  for (std::size_t i = std::size_t(GetParam()); i < operators.size(); i += kParts) {
    if (operators[i]->library == kTesting) continue;
    CheckDevices({.op = operators[i]->name});
  }
}

// The operators that come with anyop have none.
TEST(Devices, HaveTensorsBesideThemThatArePlannedOnTheHost) {
  Load(LibraryFolder() + "../tests/anyop_testing.so");
  ASSERT_FALSE(Devices().empty());
  int n = 0;
  for (const Operator* op : Operators()) {
    const bool has_reference = std::ranges::all_of(op->kernels, &OperatorKernel::is_for_host);
    if (!op->planned || !has_reference) continue;
    CheckDevices({.op = op->name});
    ++n;
  }
  EXPECT_GE(n, 3);
  EXPECT_GT(ReadTally().ran.at("testing.planned_sum cpu_f32 on far:0"), 3);
}
INSTANTIATE_TEST_SUITE_P(Part, EveryOperator, ::testing::Range(0, kParts));

}  // namespace
}  // namespace anyop::optest::devices_test
