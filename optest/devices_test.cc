// SPDX-License-Identifier: Apache-2.0
// Every operator on the device for tests (devices/far), data as the signature alone allows them:
// what an operator's own .check refuses is refused there, too. The operators' own tests run the
// calls that they repair.
#include "anyop/stream.h"
#include "optest/optest.h"
#include "runtime/call.h"

namespace anyop::optest::devices_test {
namespace {

class EveryOperator : public ::testing::TestWithParam<int> {};
constexpr int kParts = 8;  // of the operators, so that a failure leaves the others

TEST_P(EveryOperator, RunsOnTheDeviceForTests) {
  const std::vector<Operator*> operators = Operators();
  ASSERT_FALSE(Devices().empty());
  for (std::size_t i = std::size_t(GetParam()); i < operators.size(); i += kParts) {
    CheckDevices({.op = operators[i]->name});
  }
}
INSTANTIATE_TEST_SUITE_P(Part, EveryOperator, ::testing::Range(0, kParts));

}  // namespace
}  // namespace anyop::optest::devices_test
