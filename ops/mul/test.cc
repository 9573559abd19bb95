// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cstdint>

namespace anyop::optest::mul_test {
namespace {

const OpTest kMul{
    .op = "mul",
    .tolerance = Exact(),
    .row_invariant = true,
    .sizes = {"rows = 16, d = 576", "rows = 300, d = 8", "rows = 700, d = 1"},
};
TEST(Mul, MatchesItsReference) { CheckAll(kMul); }

TEST(Mul, WrapsIntegers) {
  for (DType dtype : {DType::kI32, DType::kI64}) {
    const std::int64_t a = dtype == DType::kI32 ? 123456789 : 1234567890123456789;
    const auto product = std::int64_t(std::uint64_t(a) * 987654321u);
    Call call("mul");
    Array x(dtype, {1, 1}), y(dtype, {1, 1});
    x.SetInt(0, a);
    y.SetInt(0, 987654321);
    call.Set("x", x).Set("y", y);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_EQ(results.find("z")->second.GetInt(0),
                dtype == DType::kI32 ? std::int32_t(product) : product)
          << kernel;
    }
  }
}

TEST(Mul, MultipliesAllRowsByOneRow) {
  Call call("mul");
  call.Set("x", Array(DType::kI32, {3, 2}, {1, 2, 3, 4, 5, 6}));
  call.Set("y", Array(DType::kI32, {2}, {10, 20}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("z")->second, Array(DType::kI32, {3, 2}, {10, 40, 30, 80, 50, 120}))
        << kernel;
  }
}

}  // namespace
}  // namespace anyop::optest::mul_test
