// SPDX-License-Identifier: Apache-2.0
// When to leave the other threads alone. A worker whose core was taken holds its part of a region,
// or OpenMP's barrier, for a time slice. The caller cannot help, but it can stop asking for a
// while: longer each time that it happens again.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace anyop {

inline std::int64_t NowNs() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

class BackOff {
 public:
  static constexpr std::int64_t kMillisecond = 1000000;
  static constexpr std::int64_t kStall = 300000;  // no worker with a core is that late
  static constexpr std::int64_t kFirst = 30 * kMillisecond, kLongest = 500 * kMillisecond;

  // Whether a region should run on its caller alone now.
  bool IsOn() {
    const std::int64_t until = until_ns_.load(std::memory_order_relaxed);
    if (until == 0) return false;
    const std::int64_t now = NowNs();
    if (now < until) return true;
    const std::int64_t span = span_ns_.load(std::memory_order_relaxed);
    if (now > until + 4 * span) until_ns_.store(0, std::memory_order_relaxed);
    return false;
  }

  // The caller ran `mine` chunks from start to end, and then waited until now. Long chunks are told
  // from stalls by the time that the caller's own took.
  void Waited(std::int64_t start_ns, std::int64_t end_ns, std::int64_t now_ns, int mine) {
    const std::int64_t chunk = mine > 0 ? (end_ns - start_ns) / mine : 0;
    const std::int64_t stall = mine > 0 ? std::max(kStall, 4 * chunk) : kLongest;
    if (now_ns - end_ns <= stall) return;
    const std::int64_t span = span_ns_.load(std::memory_order_relaxed);
    const bool again = now_ns < until_ns_.load(std::memory_order_relaxed) + 4 * span;
    const std::int64_t next = again ? std::min(2 * span, kLongest) : kFirst;
    span_ns_.store(next, std::memory_order_relaxed);
    until_ns_.store(now_ns + next, std::memory_order_relaxed);
    stalls_.fetch_add(1, std::memory_order_relaxed);
  }

  std::uint64_t stalls() const { return stalls_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> until_ns_{0}, span_ns_{0};
  std::atomic<std::uint64_t> stalls_{0};
};

}  // namespace anyop
