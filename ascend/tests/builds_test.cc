// SPDX-License-Identifier: Apache-2.0
// Both builds of one source give the same values, on any number of blocks and threads.
#include "builds.h"

#include <gtest/gtest.h>

#include <thread>

#include "on_core.h"

namespace ascend_tests {
namespace {

template <class T>
std::vector<T> Values(const Global<T>& global, std::size_t count) {
  return {global.data(), global.data() + count};
}

std::vector<half> Pipeline(const KernelTable& kernels, std::uint32_t blocks, std::uint32_t rows,
                           std::uint32_t n) {
  std::vector<half> input(std::size_t{rows} * n);
  std::uint32_t state = 31;
  for (half& value : input) value = half(static_cast<float>(Drawn(state) % 2000) / 64 - 10);
  Global<half> x("x", input);
  Global<half> y("y", input.size(), ANYOP_ASCEND_WRITE | ANYOP_ASCEND_WHOLE);
  kernels.pipeline(blocks, x.address(), y.address(), rows, n);
  return Values(y, input.size());
}

TEST(Builds, GiveTheSameValues) {
  for (const std::uint32_t n : {1u, 15u, 16u, 17u, 64u, 129u, 1000u, 4096u}) {
    for (const std::uint32_t blocks : {1u, 3u, 20u}) {
      anyop_ascend_clear();
      const auto checked = Pipeline(checked::kKernels, blocks, 7, n);
      EXPECT_EQ(Findings().dump(), "[]") << n;
      const auto fast = Pipeline(fast::kKernels, blocks, 7, n);
      for (std::size_t i = 0; i < fast.size(); ++i) {
        ASSERT_EQ(fast[i], checked[i]) << n << ", " << blocks << " blocks, element " << i;
      }
    }
  }
}
TEST(Builds, GiveTheSameSumsOverBlocksThatWait) {
  for (const std::uint32_t blocks : {1u, 2u, 24u}) {
    for (const KernelTable* kernels : {&checked::kKernels, &fast::kKernels}) {
      anyop_ascend_clear();
      Global<float> x("x", std::vector<float>(blocks * 64, 3.0f));
      Global<float> y("y", std::vector<float>(64, 1.0f));
      anyop_ascend_declare(y.data(), 64 * 4, "y", ANYOP_ASCEND_READ | ANYOP_ASCEND_WRITE);
      Global<float> z("z", blocks * 64, ANYOP_ASCEND_WRITE | ANYOP_ASCEND_WHOLE);
      kernels->sum_of_blocks(blocks, x.address(), y.address(), z.address());
      for (std::uint32_t i = 0; i < blocks * 64; ++i)
        ASSERT_EQ(z[i], 1.0f + 3.0f * static_cast<float>(blocks));
      EXPECT_EQ(Findings().dump(), "[]");
    }
  }
}
TEST(Builds, ReduceAlike) {
  std::vector<float> input(20 * 256);
  std::uint32_t state = 33;
  for (float& value : input) value = static_cast<float>(Drawn(state) % 1000) / 100;
  std::vector<float> results[2];
  for (const bool is_fast : {false, true}) {
    anyop_ascend_clear();
    Global<float> x("x", input);
    Global<float> y("y", 20 * 8, ANYOP_ASCEND_WRITE);
    (is_fast ? fast::kKernels : checked::kKernels).exp_sum(20, x.address(), y.address());
    for (int b = 0; b < 20; ++b) results[is_fast].push_back(y[b * 8]);
  }
  EXPECT_EQ(results[0], results[1]);
}
TEST(Builds, RunAsManyBlocksAsALaunchHasUnlessAllOfThemWait) {
  constexpr std::uint32_t kMost = 65535, kTooManyThatWait = 1025;
  for (const bool is_fast : {false, true}) {
    const KernelTable& kernels = is_fast ? fast::kKernels : checked::kKernels;
    anyop_ascend_clear();
    Global<float> x("x", kTooManyThatWait * 64, ANYOP_ASCEND_READ);
    Global<float> y("y", std::vector<float>(64));
    anyop_ascend_declare(y.data(), 64 * 4, "y", ANYOP_ASCEND_READ | ANYOP_ASCEND_WRITE);
    const std::uint32_t blocks = is_fast ? kMost : kTooManyThatWait;
    kernels.counts_blocks(blocks, y.address());
    EXPECT_EQ(y[7], static_cast<float>(blocks));
    EXPECT_EQ(Findings().dump(), "[]");
    kernels.sum_of_blocks(kTooManyThatWait, x.address(), y.address(), nullptr);
    ASSERT_EQ(Findings().size(), 1u);
    EXPECT_EQ(Findings()[0]["text"],
              "SyncAll among 1025 blocks can not end: all of them must run at the same time");
  }
  anyop_ascend_clear();
}
TEST(Builds, SayThatAKernelEndsTheProcess) {
  constexpr const char* kFunctions[] = {"exit", "exit", "_exit", "quick_exit", "_exit", "abort"};
  for (const bool is_fast : {false, true}) {
    for (std::uint32_t i = 0; i < std::size(kFunctions); ++i) {
      anyop_ascend_clear();
      Global<std::uint8_t> y("y", std::vector<std::uint8_t>(8));
      anyop_ascend_declare(y.data(), 8, "y", ANYOP_ASCEND_READ | ANYOP_ASCEND_WRITE);
      (is_fast ? fast::kKernels : checked::kKernels).ends(3, y.address(), 1, i);
      EXPECT_EQ(y[0] + y[1], 2) << kFunctions[i];
      const auto found = Findings();
      ASSERT_EQ(found.size(), 1u) << found.dump(1);
      EXPECT_EQ(found[0]["kind"], "crash");
      EXPECT_EQ(found[0]["text"], std::string("the kernel calls ") + kFunctions[i] +
                                      "(), in block 1. A device has no process to end: try return");
    }
  }
  anyop_ascend_clear();
}
TEST(Builds, OfLongBlocksRunOnSeveralThreadsAndGiveTheSame) {
  anyop_ascend_clear();
  const auto checked = Pipeline(checked::kKernels, 40, 400, 4000);
  EXPECT_TRUE(Pipeline(fast::kKernels, 40, 400, 4000) == checked);
}
TEST(FastBuild, RunsFromSeveralThreadsAtOnce) {
  anyop_ascend_clear();
  const auto want = Pipeline(checked::kKernels, 4, 16, 500);
  anyop_ascend_clear();
  std::vector<half> got[4];
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<Global<half>>> x, y;
  for (int t = 0; t < 4; ++t) {
    x.push_back(std::make_unique<Global<half>>("x", 16 * 500, ANYOP_ASCEND_READ));
    y.push_back(std::make_unique<Global<half>>("y", 16 * 500, ANYOP_ASCEND_WRITE));
    std::uint32_t state = 31;
    for (int i = 0; i < 16 * 500; ++i)
      x[t]->data()[i] = half(static_cast<float>(Drawn(state) % 2000) / 64 - 10);
  }
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i)
        fast::kKernels.pipeline(20, x[t]->address(), y[t]->address(), 16, 500);
    });
  }
  for (auto& thread : threads) thread.join();
  for (int t = 0; t < 4; ++t) EXPECT_TRUE(Values(*y[t], 16 * 500) == want);
}

}  // namespace
}  // namespace ascend_tests
