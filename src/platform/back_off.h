// SPDX-License-Identifier: Apache-2.0
// When to leave the other threads alone. A worker whose core was taken holds its part of a region,
// or OpenMP's barrier, for a time slice. The caller cannot help, but it can stop asking for a
// while: longer each time that it happens again. One stall alone is no reason: a worker that sleeps
// may wake up late, and a virtual machine takes a core away now and then.
#pragma once
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "platform/clock.h"

namespace anyop {

inline std::int64_t ThreadCpuNs() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

// Several callers may use one at a time. All its loads and stores are relaxed, because a stale
// value changes only which threads run a region, never what the region computes.
class BackOff {
 public:
  static constexpr std::int64_t kMillisecond = 1000000;
  static constexpr std::int64_t kStall = 300000;  // no worker with a core is that late
  // Two stalls within this time begin a back-off. If one alone did, each passing loss of a core
  // would put the next 30 ms on one thread: median of linear [1, 576] x [3072, 576] on a quiet
  // machine 240 us, with two 95 us.
  static constexpr std::int64_t kTogether = 20 * kMillisecond;
  // With the other core busy, these spans kept 97 to 99 % of the speed of one thread.
  static constexpr std::int64_t kFirst = 30 * kMillisecond, kLongest = 500 * kMillisecond;

  // The caller's clocks where a region begins.
  struct Start {
    std::int64_t ns;
    std::int64_t cpu_ns;  // -1: not looked at
  };

  // Whether a region should run on its caller alone now.
  bool IsOn() {
    const std::int64_t until = until_ns_.load(std::memory_order_relaxed);
    if (until == 0) return false;
    const std::int64_t now = NowNs();
    if (now < until) return true;
    const std::int64_t span = span_ns_.load(std::memory_order_relaxed);
    // So long after the last back-off, a stall is no repetition (Waited), and the next calls of
    // this function need no clock.
    if (now > until + 4 * span) until_ns_.store(0, std::memory_order_relaxed);
    return false;
  }

  // A thread's CPU time takes a system call: it is looked at once a region was late.
  Start Begin() const {
    return {NowNs(), was_late_.load(std::memory_order_relaxed) ? ThreadCpuNs() : -1};
  }

  // The caller ran `mine` chunks until end, and then waited until now. Long chunks are told from
  // stalls by the time that the caller's own took. On a crowded machine the caller loses its core
  // too, within its own chunks or before them: wall time that was not CPU time is lost as well.
  void Waited(const Start& start, std::int64_t end_ns, std::int64_t now_ns, int mine) {
    const bool is_late = now_ns - start.ns > kStall;
    // Stored only where it changes: a store takes the cache line from all other callers.
    if (is_late != was_late_.load(std::memory_order_relaxed)) {
      was_late_.store(is_late, std::memory_order_relaxed);
    }
    if (!is_late) return;
    const std::int64_t waited = now_ns - end_ns;
    std::int64_t ran = end_ns - start.ns, lost = 0;
    if (start.cpu_ns >= 0) {
      const std::int64_t cpu = ThreadCpuNs() - start.cpu_ns;
      lost = now_ns - start.ns - cpu;
      ran = std::min(ran, cpu);
    }
    const std::int64_t chunk = mine > 0 ? ran / mine : 0;
    const std::int64_t late = std::max(kStall, 4 * chunk);
    // A caller that ran no chunk does not know how long one takes, so its wait tells nothing,
    // unless it is longer than any back-off.
    if ((mine == 0 || waited <= late) && lost <= late && waited <= kLongest) return;
    stalls_.fetch_add(1, std::memory_order_relaxed);
    const std::int64_t before = last_ns_.exchange(now_ns, std::memory_order_relaxed);
    if (before == 0 || now_ns - before > kTogether) return;
    const std::int64_t span = span_ns_.load(std::memory_order_relaxed);
    const bool again = now_ns < until_ns_.load(std::memory_order_relaxed) + 4 * span;
    const std::int64_t next = again ? std::min(2 * span, kLongest) : kFirst;
    span_ns_.store(next, std::memory_order_relaxed);
    until_ns_.store(now_ns + next, std::memory_order_relaxed);
    last_ns_.store(0, std::memory_order_relaxed);  // the next back-off needs two new stalls
  }

  std::uint64_t stalls() const { return stalls_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> until_ns_{0}, span_ns_{0}, last_ns_{0};
  std::atomic<bool> was_late_{false};
  std::atomic<std::uint64_t> stalls_{0};
};

}  // namespace anyop
