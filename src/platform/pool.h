// SPDX-License-Identifier: Apache-2.0
// Our thread pool. The parts of a region (chunks) are claimed one by one: the caller runs every
// chunk that no worker has claimed and waits only for claimed ones, so workers that have no core
// cost it nothing. Workers are never pinned, even where OpenMP has pinned the caller: with one of
// two cores taken by another process, pinned workers decoded 185 tokens/s, free ones 278. They spin
// for a while after a region, then sleep.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>

#include "platform/back_off.h"
#include "platform/threads.h"

namespace anyop {

class Pool {
 public:
  struct Region {
    RangeFunction fn = nullptr;
    void* arg = nullptr;
    std::int64_t n = 0;
    int chunks = 0;
    int threads = 0;
  };

  // Runs the region unless another thread's is running, the workers would have to be woken for too
  // little work, or the pool is backing off: then it does nothing and returns false.
  bool Run(const Region& region, double estimated_ns);

  PoolCounters Read() const;

 private:
  int CountSleepers(int threads) const;
  bool IsWorthWaking(double estimated_ns);
  void Wake(int threads);
  void StartWorkers(int threads);
  void Work(int id);
  void Sleep(int id);
  bool Claim(std::uint64_t& word, int* chunk);
  void RunChunk(int chunk);
  int TakeChunks();
  void AwaitWorkers(int claimed, const BackOff::Start& start, int mine);

  // One word publishes a region: {epoch : 28 | threads : 12 | chunks : 12 | next chunk : 12}, so
  // that one compare-and-swap claims a chunk and knows that the region is still the same. 12 bits
  // hold the 4 * kMaxThreads chunks that a region has at most.
  alignas(128) std::atomic<std::uint64_t> word_{0};
  alignas(128) std::atomic<int> done_{0};  // chunks that workers have finished
  std::atomic<int> failures_{0};
  std::exception_ptr failure_;  // of the first chunk that threw
  alignas(128) std::atomic<std::uint64_t> asleep_[kMaxThreads / 64] = {};  // by worker
  std::atomic<std::uint32_t> futex_{0};

  // The rest belongs to the caller that holds busy_.
  alignas(128) std::atomic<bool> busy_{false};
  Region region_;
  int workers_ = 0;
  BackOff back_off_;
  std::int64_t last_request_ns_ = 0;  // end of the last region that found its workers asleep
  double small_work_ns_ = 0;          // work of those regions, as far as they came close together
  std::atomic<std::uint64_t> regions_{0}, worker_chunks_{0}, wakes_{0};
};

}  // namespace anyop
