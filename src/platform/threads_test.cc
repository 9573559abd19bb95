// SPDX-License-Identifier: Apache-2.0
#include "platform/threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

#include "platform/error.h"

namespace anyop::threads_test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kMuch = 1e6;  // ns: worth waking workers

template <class F>
void For(int threads, std::int64_t n, std::int64_t grain, F f, double ns = kMuch) {
  ParallelFor(
      threads, n, grain,
      [](void* arg, std::int64_t begin, std::int64_t end) { (*static_cast<F*>(arg))(begin, end); },
      &f, ns);
}

void Burn(std::chrono::microseconds time) {
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
  }
}

TEST(ParallelFor, RunsEveryItemOnce) {
  for (const std::int64_t n : {1, 2, 7, 8, 9, 100, 1001}) {
    for (const std::int64_t grain : {1, 3, 50, 5000}) {
      for (const int threads : {1, 2, 3, 8}) {
        std::vector<std::atomic<int>> count(std::size_t(n) + 1);
        For(threads, n, grain, [&](std::int64_t begin, std::int64_t end) {
          EXPECT_LT(begin, end);
          for (; begin < end; ++begin) count[std::size_t(begin)]++;
        });
        for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(count[std::size_t(i)], 1) << n << " " << i;
      }
    }
  }
}

TEST(ParallelFor, DoesNothingForNoItems) {
  For(2, 0, 1, [](auto, auto) { FAIL(); });
  For(2, -5, 1, [](auto, auto) { FAIL(); });
}

TEST(ParallelFor, GivesWorkersTheirShare) {
  const std::uint64_t before = ReadPoolCounters().worker_chunks;
  for (int i = 0; i < 100 && ReadPoolCounters().worker_chunks == before; ++i) {
    For(2, 8, 1, [](auto, auto) { Burn(std::chrono::microseconds(200)); });
    Burn(std::chrono::milliseconds(5));  // not to count as a stall
  }
  EXPECT_GT(ReadPoolCounters().worker_chunks, before);
}

TEST(ParallelFor, UsesNoMoreThreadsThanAsked) {
  std::atomic<int> inside{0}, most{0};
  for (int i = 0; i < 50; ++i) {
    For(4, 16, 1, [](auto, auto) {});  // four threads are there
    For(2, 16, 1, [&](auto, auto) {
      const int now = ++inside;
      if (now > most) most = now;
      Burn(std::chrono::microseconds(20));
      --inside;
    });
  }
  EXPECT_LE(most, 2);
}

TEST(ParallelFor, RunsSmallWorkInline) {
  const std::uint64_t regions = ReadPoolCounters().regions;
  const auto caller = std::this_thread::get_id();
  const auto check = [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(end - begin, 100);
  };
  For(2, 100, 100, check);
  For(2, 100, 1, check, 1000);
  For(1, 100, 1, check);
  EXPECT_EQ(ReadPoolCounters().regions, regions);
}

TEST(ParallelFor, WakesNobodyForLittleWorkNowAndThen) {
  For(2, 8, 1, [](auto, auto) {});
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the workers sleep by now
    const std::uint64_t wakes = ReadPoolCounters().wakes;
    For(
        2, 8, 1, [](auto, auto) {}, 20000);
    EXPECT_EQ(ReadPoolCounters().wakes, wakes);
  }
}

TEST(ParallelFor, WakesWorkersForLittleWorkThatKeepsComing) {
  std::this_thread::sleep_for(std::chrono::milliseconds(600));  // past any back-off
  const std::uint64_t wakes = ReadPoolCounters().wakes;
  for (int i = 0; i < 100; ++i) {
    For(
        2, 8, 1, [](auto, auto) { Burn(std::chrono::microseconds(2)); }, 16000);
  }
  EXPECT_GT(ReadPoolCounters().wakes, wakes);
}

TEST(ParallelFor, RunsNestedRegionsInline) {
  std::atomic<int> sum{0};
  For(2, 8, 1, [&](std::int64_t begin, std::int64_t end) {
    const auto outer = std::this_thread::get_id();
    For(2, 10, 1, [&](std::int64_t b, std::int64_t e) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      sum += int(e - b) * int(end - begin);
    });
  });
  EXPECT_EQ(sum % 10, 0);
  EXPECT_GT(sum, 0);
}

TEST(ParallelFor, TakesCallsOfSeveralThreadsAtOnce) {
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        For(2, 100, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
      }
    });
  }
  for (std::thread& c : callers) c.join();
  EXPECT_EQ(sum, 4 * 500 * 100);
}

TEST(ParallelFor, BringsAnExceptionToTheCaller) {
  for (int i = 0; i < 200; ++i) {
    std::atomic<int> ran{0};
    const auto fail = [&](std::int64_t begin, std::int64_t) {
      ++ran;
      if (begin == 5) throw std::runtime_error("five");
    };
    EXPECT_THROW(For(2, 8, 1,
                     [&](std::int64_t b, std::int64_t e) {
                       for (; b < e; ++b) fail(b, b + 1);
                     }),
                 std::runtime_error);
    std::atomic<int> after{0};
    For(2, 8, 1, [&](std::int64_t b, std::int64_t e) { after += int(e - b); });
    EXPECT_EQ(after, 8);
  }
}

TEST(ParallelFor, WorksInAForkedChild) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no threads after a fork";
#endif
#ifdef ANYOP_EMULATED
  GTEST_SKIP() << "qemu allows no threads after a fork";
#endif
  For(2, 8, 1, [](auto, auto) {});
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> sum{0};
    for (int i = 0; i < 10; ++i) {
      For(2, 8, 1, [&](std::int64_t b, std::int64_t e) {
        Burn(std::chrono::microseconds(50));
        sum += int(e - b);
      });
    }
    _exit(sum == 80 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(ParallelFor, UsesTheHostsPoolWhenThereIsOne) {
  struct Host {
    int calls = 0;
    static void Run(void* self, int, std::int64_t n, std::int64_t, RangeFunction fn, void* arg) {
      static_cast<Host*>(self)->calls++;
      for (std::int64_t i = n; i-- > 0;) fn(arg, i, i + 1);
    }
  } host;
  SetHostThreads({.parallel_for = &Host::Run, .pool = &host});
  int sum = 0;
  For(2, 8, 1, [&](std::int64_t b, std::int64_t e) {
    For(2, 8, 1, [&](std::int64_t, std::int64_t) { ++sum; });  // nested: not the host's affair
    EXPECT_EQ(e, b + 1);
  });
  SetHostThreads({});
  EXPECT_EQ(host.calls, 1);
  EXPECT_EQ(sum, 8);
  For(2, 8, 1, [](auto, auto) {});
  EXPECT_EQ(host.calls, 1);
}

// A host whose other thread holds its barrier for `late` after the caller's part.
struct LateHost {
  std::chrono::microseconds part, late;
  int calls = 0;
  static void Run(void* self, int, std::int64_t n, std::int64_t, RangeFunction fn, void* arg) {
    LateHost& host = *static_cast<LateHost*>(self);
    ++host.calls;
    fn(arg, 0, n);
    std::this_thread::sleep_for(host.late);
  }
  // How many of n regions, one after another, the host is asked to run.
  int CallsOf(int n) {
    calls = 0;
    SetHostThreads({.parallel_for = &LateHost::Run, .pool = this});
    for (int i = 0; i < n; ++i) {
      For(2, 8, 1, [&](auto, auto) { Burn(part); });
    }
    return calls;
  }
};

TEST(ParallelFor, LeavesAHostAloneThatStalls) {
  using std::chrono::microseconds;
  LateHost stalls{microseconds(10), microseconds(2000)};
  EXPECT_EQ(stalls.CallsOf(10), 2);
  EXPECT_GT(ReadPoolCounters().stalls, 1u);
  std::this_thread::sleep_for(std::chrono::milliseconds(35));
  for (int i = 0; i < 10; ++i) For(2, 8, 1, [](auto, auto) {});
  EXPECT_EQ(stalls.calls, 4);  // it is asked again
  LateHost slow{microseconds(20000), microseconds(2000)};
  EXPECT_EQ(slow.CallsOf(3), 3);  // long parts are no stalls
  SetHostThreads({});
}

TEST(ParallelFor, AsksAHostThatStallsNowAndThen) {
  LateHost stalls{std::chrono::microseconds(10), std::chrono::microseconds(2000)};
  int asked = 0;
  for (int i = 0; i < 5; ++i) {
    asked += stalls.CallsOf(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  EXPECT_EQ(asked, 5);
  SetHostThreads({});
}

// A host on a crowded machine: the caller loses its core before or within its own part.
struct CrowdedHost {
  bool takes_part;
  std::chrono::microseconds lost;
  int calls = 0;
  static void Run(void* self, int, std::int64_t n, std::int64_t, RangeFunction fn, void* arg) {
    CrowdedHost& host = *static_cast<CrowdedHost*>(self);
    ++host.calls;
    std::this_thread::sleep_for(host.lost);
    if (host.takes_part) return fn(arg, 0, n);
    std::thread([=] { fn(arg, 0, n); }).join();
  }
};

TEST(ParallelFor, LeavesAHostAloneInWhichTheCallerLosesItsCore) {
  for (bool takes_part : {true, false}) {
    CrowdedHost crowded{takes_part, std::chrono::microseconds(2000)};
    SetHostThreads({.parallel_for = &CrowdedHost::Run, .pool = &crowded});
    for (int i = 0; i < 10; ++i) For(2, 8, 1, [](auto, auto) {});
    // The first makes it look at the second, and two stalls are needed.
    EXPECT_EQ(crowded.calls, 3) << takes_part;
    SetHostThreads({});
  }
}

TEST(ParallelFor, KeepsToTheNumberThatItsHostAllowsNow) {
  static int allowed;
  SetHostThreads({.count = [] { return allowed; }});
  const auto regions_with = [](int threads) {
    allowed = threads;
    const std::uint64_t before = ReadPoolCounters().inline_calls;
    For(2, 8, 1, [](auto, auto) {});
    return ReadPoolCounters().inline_calls - before;
  };
  EXPECT_EQ(regions_with(1), 1);  // the caller alone
  EXPECT_LE(regions_with(2), 1);  // the pool, unless it sleeps or backs off
  SetHostThreads({});
}

TEST(NumThreads, RefusesWhatIsNoNumberOfThreads) {
  const int before = NumThreads();
  EXPECT_GE(before, 1);
  EXPECT_THROW(SetNumThreads(0), Error);
  EXPECT_THROW(SetNumThreads(257), Error);
  SetNumThreads(3);
  EXPECT_EQ(NumThreads(), 3);
  SetNumThreads(before);
}

}  // namespace
}  // namespace anyop::threads_test
