// SPDX-License-Identifier: Apache-2.0
#include "platform/threads.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>

#include "platform/cpu.h"
#include "platform/env.h"
#include "platform/pool.h"
#include "runtime/error.h"

namespace anyop {
namespace {

constexpr double kGrainNs = 2000;       // what `grain` items take
constexpr double kWorthSharing = 4000;  // a region costs about 500 ns
constexpr int kChunksPerThread = 4;     // 8 for two threads: claims even out noise

// Never destroyed: its workers outlive main. A forked child has no workers, so it starts afresh.
std::atomic<Pool*> g_pool{nullptr};
std::atomic<std::uint64_t> g_inline_calls{0};

std::atomic<const HostThreads*> g_host{nullptr};

thread_local bool t_in_region = false;

Pool& OurPool() {
  Pool* pool = g_pool.load(std::memory_order_acquire);
  if (pool) [[likely]]
    return *pool;
  static std::once_flag at_fork;
  std::call_once(at_fork, [] {
    pthread_atfork(nullptr, nullptr, [] {
      g_pool.store(nullptr, std::memory_order_release);
      t_in_region = false;
    });
  });
  Pool* made = new Pool;
  if (g_pool.compare_exchange_strong(pool, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *pool;
}

// Marks the parts that workers run as nested too.
struct Marked {
  RangeFunction fn;
  void* arg;
  static void Run(void* self, std::int64_t begin, std::int64_t end) {
    const Marked& m = *static_cast<const Marked*>(self);
    t_in_region = true;
    struct Leave {
      ~Leave() { t_in_region = false; }
    } leave;
    m.fn(m.arg, begin, end);
  }
};

int DefaultThreads() {
  const std::int64_t asked = EnvironmentInteger("ANYOP_THREADS");
  return int(std::clamp<std::int64_t>(asked > 0 ? asked : AvailableCores(), 1, kMaxThreads));
}

}  // namespace

void ParallelFor(int threads, std::int64_t n, std::int64_t grain, RangeFunction fn, void* arg,
                 double estimated_ns) {
  if (n <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  threads = std::min(threads, kMaxThreads);
  if (estimated_ns <= 0) estimated_ns = double(n) / double(grain) * kGrainNs;
  if (threads > 1 && n > grain && estimated_ns >= kWorthSharing && !t_in_region) {
    const HostThreads* host = g_host.load(std::memory_order_acquire);
    const int bound = host && host->count ? host->count() : 0;
    if (bound > 0) threads = std::min(threads, bound);
    if (threads > 1) {
      Marked marked{fn, arg};
      if (host && host->parallel_for) {
        return host->parallel_for(host->pool, threads, n, grain, &Marked::Run, &marked);
      }
      const std::int64_t chunks =
          std::min<std::int64_t>((n + grain - 1) / grain, std::int64_t(kChunksPerThread) * threads);
      const Pool::Region region{&Marked::Run, &marked, n, int(chunks), threads};
      if (OurPool().Run(region, estimated_ns)) return;
    }
  }
  g_inline_calls.fetch_add(1, std::memory_order_relaxed);
  fn(arg, 0, n);
}

std::atomic<int> detail::num_threads{0};

int detail::ChooseNumThreads() {
  const int threads = DefaultThreads();
  num_threads.store(threads, std::memory_order_relaxed);
  return threads;
}

void SetNumThreads(int threads) {
  if (threads < 1 || threads > kMaxThreads) {
    Fail(ANYOP_INVALID_ARGUMENT, "the number of threads is " + std::to_string(threads) +
                                     ", but must be 1 to " + std::to_string(kMaxThreads) + ".");
  }
  detail::num_threads.store(threads, std::memory_order_relaxed);
}

void SetHostThreads(const HostThreads& host) {
  // A forked child has none of the host's threads, and OpenMP would wait for them for ever.
  static std::once_flag at_fork;
  std::call_once(at_fork, [] {
    pthread_atfork(nullptr, nullptr, [] {
      const HostThreads* parents = g_host.load(std::memory_order_acquire);
      if (parents && parents->parallel_for) {
        g_host.store(new HostThreads{.count = parents->count}, std::memory_order_release);
      }
    });
  });
  // The old one stays: a region may be reading it. Hosts set this once or twice.
  g_host.store(new HostThreads(host), std::memory_order_release);
}

PoolCounters ReadPoolCounters() {
  const Pool* pool = g_pool.load(std::memory_order_acquire);
  PoolCounters c = pool ? pool->Read() : PoolCounters{};
  c.inline_calls = g_inline_calls.load(std::memory_order_relaxed);
  return c;
}

}  // namespace anyop
