// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <cstring>

namespace anyop::optest::top_k_test {
namespace {

const OpTest kTopK{
    .op = "top_k",
    .tolerance = Exact(),
    .row_invariant = true,
    .sizes = {"rows = 1, d = 49152, k = 50", "rows = 2, d = 9001, k = 600",
              "rows = 5, d = 128, k = 8", "rows = 3, d = 40, k = 40", "rows = 2, d = 9, k = 0",
              "rows = 4, d = 257, k = 1"},
};
TEST(TopK, MatchesItsReference) { CheckAll(kTopK); }

void ExpectTopK(const Array& x, int k, bool sorted, const Array& values, const Array& indices) {
  Call call("top_k");
  call.Set("x", x).Set("k", k).Set("sorted", sorted);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("values")->second, values) << kernel;
    EXPECT_EQ(results.find("indices")->second, indices) << kernel;
  }
}

TEST(TopK, FallsAndTakesEqualsByRisingIndex) {
  const Array x(DType::kF32, {1, 6}, {2, 5, 2, 7, 5, 2});
  ExpectTopK(x, 4, true, Array(DType::kF32, {1, 4}, {7, 5, 5, 2}),
             Array(DType::kI64, {1, 4}, {3, 1, 4, 0}));
  ExpectTopK(x, 4, false, Array(DType::kF32, {1, 4}, {2, 5, 7, 5}),
             Array(DType::kI64, {1, 4}, {0, 1, 3, 4}));
}

TEST(TopK, TakesNaNLast) {
  const Array x(DType::kF32, {1, 5}, {NAN, -HUGE_VAL, NAN, 3, HUGE_VAL});
  Call call("top_k");
  call.Set("x", x).Set("k", 4);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("indices")->second, Array(DType::kI64, {1, 4}, {4, 3, 1, 0})) << kernel;
  }
}

TEST(TopK, KeepsTheBitsOfZeros) {
  ExpectTopK(Array(DType::kF32, {1, 3}, {-1, -0.0, 0.0}), 2, true,
             Array(DType::kF32, {1, 2}, {-0.0, 0.0}), Array(DType::kI64, {1, 2}, {1, 2}));
}

TEST(TopK, KeepsTheBitsOfNaN) {
  for (const bool sorted : {true, false}) {
    Array x(DType::kF32, {1, 4}, {NAN, 1, NAN, NAN}), half(DType::kBF16, {1, 3}, {NAN, 1, NAN});
    const std::uint32_t nans[] = {0xffc12345u, 0, 0x7fc00001u, 0x7fffffffu};
    for (int i : {0, 2, 3}) x.data<std::uint32_t>()[i] = nans[i];
    half.data<std::uint16_t>()[0] = 0xffc3, half.data<std::uint16_t>()[2] = 0x7fd5;
    for (const Array* row : {&x, &half}) {
      Call call("top_k");
      call.Set("x", *row).Set("k", row->size()).Set("sorted", sorted);
      for (const auto& [kernel, results] : call.RunEveryKernel()) {
        const Array &values = results.at("values"), &indices = results.at("indices");
        const std::int64_t width = Bytes(row->dtype());
        for (std::int64_t i = 0; i < row->size(); ++i) {
          EXPECT_EQ(std::memcmp(values.data<char>() + i * width,
                                row->data<char>() + indices.GetInt(i) * width, std::size_t(width)),
                    0)
              << kernel << " " << i;
        }
      }
    }
  }
}

TEST(TopK, TakesTheFirstOfALongRowOfEquals) {
  Array x(DType::kBF16, {1, 20000}, {1});
  x.Set(19999, 2);
  ExpectTopK(x, 3, true, Array(DType::kBF16, {1, 3}, {2, 1, 1}),
             Array(DType::kI64, {1, 3}, {19999, 0, 1}));
}

}  // namespace
}  // namespace anyop::optest::top_k_test
