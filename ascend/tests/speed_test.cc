// SPDX-License-Identifier: Apache-2.0
// What checks cost, as a multiple of the build without them, and what a launch costs. The numbers
// are printed; the bounds hold on loaded machines as well.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "builds.h"
#include "on_core.h"

namespace ascend_tests {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_UNDEFINED__) || !defined(__OPTIMIZE__)
constexpr double kBound = 1e9;  // such builds are for other questions
#else
constexpr double kBound = 1;
#endif
constexpr std::uint32_t kRows = 64, kColumns = 4096;

// Microseconds of the fastest of some calls.
template <class F>
double Time(const F& call, int times) {
  double best = 1e12;
  for (int i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count());
  }
  return best;
}

// Calls `call` with each table; the two take turns, so that what else the machine does meets both.
template <class F>
void Compare(const char* name, const F& call, double most) {
  double fast_us = 1e12, checked_us = 1e12;
  for (int i = 0; i < 4; ++i) {
    fast_us = std::min(fast_us, Time([&] { call(fast::kExamples); }, 5));
    checked_us = std::min(checked_us, Time([&] { call(checked::kExamples); }, 2));
  }
  std::printf("%s of f16[%u, %u]: %.0f us, with checks %.0f us: x %.1f\n", name, kRows, kColumns,
              fast_us, checked_us, checked_us / fast_us);
  EXPECT_LT(checked_us / fast_us, most * kBound) << name;
  EXPECT_EQ(Findings().dump(), "[]") << name;
}

std::vector<half> Drawn(std::size_t elements) {
  std::vector<half> values(elements);
  std::uint32_t state = 41;
  for (half& value : values) {
    value = half(static_cast<float>(ascend_tests::Drawn(state) % 2000) / 500 - 2);
  }
  return values;
}

TEST(Speed, OfChecksIsAFewTimesThatOfTheKernel) {
  anyop_ascend_clear();
  constexpr std::size_t kElements = std::size_t{kRows} * kColumns;
  Global<half> x("x", Drawn(2 * kElements));
  Global<half> weight("weight", Drawn(kColumns));
  Global<half> y("y", kElements, ANYOP_ASCEND_WRITE | ANYOP_ASCEND_WHOLE);
  auto *const from = x.address(), *const to = y.address();
  Compare(
      "add_custom",
      [&](const ExampleTable& kernels) { kernels.add_custom(8, from, from, to, kElements); }, 15);
  Compare(
      "rms_norm",
      [&](const ExampleTable& kernels) {
        kernels.rms_norm(20, from, weight.address(), to, kRows, kColumns, 1e-6f);
      },
      15);
  Compare(
      "silu_and_mul",
      [&](const ExampleTable& kernels) { kernels.silu_and_mul(20, from, to, kRows, kColumns); },
      15);
}
TEST(Speed, OfALaunchIsMicroseconds) {
  const double fast_us = Time([] { fast::kExamples.nothing(20); }, 1000);
  const double checked_us = Time([] { checked::kExamples.nothing(20); }, 200);
  std::printf("a launch of 20 blocks: %.2f us, with checks %.1f us\n", fast_us, checked_us);
  EXPECT_LT(fast_us, 5 * kBound);
  EXPECT_LT(checked_us, 500 * kBound);
}

}  // namespace
}  // namespace ascend_tests
