// SPDX-License-Identifier: Apache-2.0
// Who runs the parts of a parallel region: the caller alone, our pool, or the host's pool.
#pragma once
#include <atomic>
#include <cstdint>

namespace anyop {

// fn(arg, begin, end) works on the items [begin, end).
using RangeFunction = void (*)(void* arg, std::int64_t begin, std::int64_t end);

inline constexpr int kMaxThreads = 256;

// Runs fn over a partition of [0, n) with at most `threads` threads, this one among them, and
// returns when all is done. grain: the least number of items worth 2 us. estimated_ns: the work of
// the whole region on one thread; 0 where unknown (then n / grain * 2 us).
// Nested regions, and those of a second thread while the pool is taken, run in the caller alone.
// An exception of fn reaches the caller after the other parts have ended.
void ParallelFor(int threads, std::int64_t n, std::int64_t grain, RangeFunction fn, void* arg,
                 double estimated_ns = 0);

// Threads of a region when nobody says otherwise: SetNumThreads, else ANYOP_THREADS, else
// AvailableCores().
inline int NumThreads();
// 1 .. kMaxThreads, process-wide; throws InvalidArgument for other values.
void SetNumThreads(int threads);

// The threads of a host that has its own, from the next region on. `count`: the most that it allows
// now (0: no bound); looked at in each region, so that the host's own setting holds.
// `parallel_for`: its pool, used instead of ours, which then sleeps; null: ours, as in forked
// children.
using HostParallelFor = void (*)(void* pool, int threads, std::int64_t n, std::int64_t grain,
                                 RangeFunction fn, void* arg);
struct HostThreads {
  int (*count)() = nullptr;
  HostParallelFor parallel_for = nullptr;
  void* pool = nullptr;
};
void SetHostThreads(const HostThreads& host);

namespace detail {
extern std::atomic<int> num_threads;  // 0 until chosen
int ChooseNumThreads();
}  // namespace detail

inline int NumThreads() {
  const int threads = detail::num_threads.load(std::memory_order_relaxed);
  return threads ? threads : detail::ChooseNumThreads();
}

// Counts since the process started, for `anyop doctor` and tests.
struct PoolCounters {
  std::uint64_t regions = 0;        // run with workers
  std::uint64_t inline_calls = 0;   // run by the caller alone
  std::uint64_t worker_chunks = 0;  // chunks that workers took
  std::uint64_t wakes = 0;          // regions that woke sleeping workers
  std::uint64_t stalls = 0;         // waits long enough to make the pool back off
};
PoolCounters ReadPoolCounters();

}  // namespace anyop
