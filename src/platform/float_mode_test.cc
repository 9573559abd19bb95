// SPDX-License-Identifier: Apache-2.0
#include "platform/float_mode.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "platform/testing/float_modes.h"
#include "platform/threads.h"

namespace anyop::float_mode_test {
namespace {

TEST(FloatMode, IsTheDefaultWhileItIsAskedForAndThenWhatItWas) {
  for (const OtherMode& other : OtherModes()) {
    const InMode mode(other.mode);
    {
      const DefaultFloatMode own;
      EXPECT_TRUE(IsDefaultFloatMode()) << other.name;
      const DefaultFloatMode again;
      EXPECT_TRUE(IsDefaultFloatMode()) << other.name;
    }
    EXPECT_EQ(ReadFloatMode(), other.mode) << other.name;
  }
}

TEST(FloatMode, IsTheCallersForItsCode) {
  for (const OtherMode& other : OtherModes()) {
    const InMode mode(other.mode);
    {
      const DefaultFloatMode own;
      {
        const CallersFloatMode callers;
        EXPECT_EQ(ReadFloatMode(), other.mode) << other.name;
        {
          const CallersFloatMode within;  // of a call that found nothing to change
          EXPECT_EQ(ReadFloatMode(), other.mode) << other.name;
        }
        {
          const DefaultFloatMode inner;
          EXPECT_TRUE(IsDefaultFloatMode()) << other.name;
        }
        EXPECT_EQ(ReadFloatMode(), other.mode) << other.name;
        WriteFloatMode(kDefaultFloatMode);  // as set_flush_denormal(False) would
      }
      EXPECT_TRUE(IsDefaultFloatMode()) << other.name;
    }
    EXPECT_TRUE(IsDefaultFloatMode()) << other.name;
  }
}

TEST(FloatMode, IsTheDefaultForAllCodeOfACallThatACompilerMakes) {
  for (const OtherMode& other : OtherModes()) {
    const InMode mode(other.mode);
    const DefaultFloatMode handlers;
    {
      const DefaultFloatMode own(DefaultFloatMode::Functions::kHaveTheDefault);
      const CallersFloatMode function;
      EXPECT_TRUE(IsDefaultFloatMode()) << other.name;
    }
    const CallersFloatMode function;
    EXPECT_EQ(ReadFloatMode(), other.mode) << other.name;
  }
}

// Workers have the mode of the thread that started them: here a mode of its own for each region.
TEST(FloatMode, IsTheDefaultOnWorkers) {
  std::atomic<int> parts{0}, others{0};
  const std::uint64_t before = ReadPoolCounters().worker_chunks;
  struct Seen {
    std::atomic<int>*parts, *others;
    std::thread::id caller;  // keeps its own mode, and runs the region alone where workers are late
  } seen{&parts, &others, {}};
  const auto look = [](void* arg, std::int64_t, std::int64_t) {
    const Seen& s = *static_cast<Seen*>(arg);
    ++*s.parts;
    *s.others += !IsDefaultFloatMode() && std::this_thread::get_id() != s.caller;
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  for (int i = 0; i < 100 && ReadPoolCounters().worker_chunks == before; ++i) {
    for (const OtherMode& other : OtherModes()) {
      std::thread([&] {
        const InMode mode(other.mode);
        const DefaultFloatMode own;  // as around every kernel
        WriteFloatMode(other.mode);  // what workers that start here inherit
        seen.caller = std::this_thread::get_id();
        ParallelFor(3, 12, 1, look, &seen, 1e6);
      }).join();
    }
  }
  EXPECT_GT(parts, 0);
  EXPECT_EQ(others, 0);
}

}  // namespace
}  // namespace anyop::float_mode_test
