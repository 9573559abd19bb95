// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <limits>

namespace anyop::optest::add_test {
namespace {

const OpTest kAdd{
    .op = "add",
    .tolerance = Exact(),
    .row_invariant = true,
    .sizes = {"rows = 16, d = 576", "rows = 16, d = 256", "rows = 700, d = 1", "rows = 90, d = 7"},
};
TEST(Add, MatchesItsReference) { CheckAll(kAdd); }

TEST(Add, WrapsIntegers) {
  Call call("add");
  Array x(DType::kI64, {1, 2}), y(DType::kI64, {1, 2});
  x.SetInt(0, std::numeric_limits<std::int64_t>::max());
  y.SetInt(0, 1);
  x.SetInt(1, std::numeric_limits<std::int64_t>::min());
  y.SetInt(1, -1);
  call.Set("x", x).Set("y", y);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& z = results.find("z")->second;
    EXPECT_EQ(z.GetInt(0), std::numeric_limits<std::int64_t>::min()) << kernel;
    EXPECT_EQ(z.GetInt(1), std::numeric_limits<std::int64_t>::max()) << kernel;
  }
}

TEST(Add, AddsOneRowToAllRows) {
  Call call("add");
  call.Set("x", Array(DType::kI32, {3, 2}, {1, 2, 3, 4, 5, 6}));
  call.Set("y", Array(DType::kI32, {2}, {10, 20}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("z")->second, Array(DType::kI32, {3, 2}, {11, 22, 13, 24, 15, 26}))
        << kernel;
  }
}

}  // namespace
}  // namespace anyop::optest::add_test
