// SPDX-License-Identifier: Apache-2.0
#include "platform/threads.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>

#include "platform/back_off.h"
#include "platform/cpu.h"
#include "platform/env.h"
#include "platform/error.h"
#include "platform/float_mode.h"
#include "platform/pool.h"

namespace anyop {
namespace {

constexpr double kGrainNs = 2000;       // the time that `grain` items take at least
constexpr double kWorthSharing = 4000;  // a region costs about 500 ns
// Several, because a thread that another process interrupts then holds only a small part.
constexpr int kChunksPerThread = 4;

// Never destroyed: its workers outlive main. A forked child has no workers, so it starts afresh.
std::atomic<Pool*> g_pool{nullptr};
std::atomic<std::uint64_t> g_inline_calls{0};

struct Host {
  HostThreads threads;
  BackOff back_off;
};
std::atomic<Host*> g_host{nullptr};

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

// Marks the parts that workers run as nested too, and notes when the caller had no more to do. Sets
// the default float mode, because workers have the mode of whoever started them. `caller` is the
// address of the caller's thread-local flag, which tells its thread from the workers.
struct Marked {
  RangeFunction fn;
  void* arg;
  const bool* caller = &t_in_region;
  std::int64_t caller_end_ns = 0;
  int caller_chunks = 0;

  static void Run(void* self, std::int64_t begin, std::int64_t end) {
    Marked& m = *static_cast<Marked*>(self);
    t_in_region = true;
    struct Leave {
      ~Leave() { t_in_region = false; }
    } leave;
    const DefaultFloatMode mode;
    m.fn(m.arg, begin, end);
    if (m.caller != &t_in_region) return;
    m.caller_end_ns = NowNs();
    ++m.caller_chunks;
  }
};

// Runs the region in the host's pool, unless that stalled a moment ago. Where the caller got no
// part, its wait began with the region.
bool RunInHost(Host& host, int threads, std::int64_t n, std::int64_t grain, Marked* marked) {
  if (host.back_off.IsOn()) return false;
  const BackOff::Start start = host.back_off.Begin();
  host.threads.parallel_for(host.threads.pool, threads, n, grain, &Marked::Run, marked);
  const std::int64_t end = marked->caller_chunks ? marked->caller_end_ns : start.ns;
  host.back_off.Waited(start, end, NowNs(), marked->caller_chunks);
  return true;
}

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
    Host* host = g_host.load(std::memory_order_acquire);
    const int bound = host && host->threads.count ? host->threads.count() : 0;
    if (bound > 0) threads = std::min(threads, bound);
    if (threads > 1) {
      Marked marked{fn, arg};
      if (host && host->threads.parallel_for) {
        if (RunInHost(*host, threads, n, grain, &marked)) return;
      } else {
        const std::int64_t chunks = std::min<std::int64_t>(
            (n + grain - 1) / grain, std::int64_t(kChunksPerThread) * threads);
        const Pool::Region region{&Marked::Run, &marked, n, int(chunks), threads};
        if (OurPool().Run(region, estimated_ns)) return;
      }
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
      const Host* parents = g_host.load(std::memory_order_acquire);
      if (parents && parents->threads.parallel_for) {
        g_host.store(new Host{{.count = parents->threads.count}, {}}, std::memory_order_release);
      }
    });
  });
  // The old one stays: a region may be reading it. Hosts set this once or twice.
  g_host.store(new Host{host, {}}, std::memory_order_release);
}

PoolCounters ReadPoolCounters() {
  const Pool* pool = g_pool.load(std::memory_order_acquire);
  PoolCounters c = pool ? pool->Read() : PoolCounters{};
  if (const Host* host = g_host.load(std::memory_order_acquire))
    c.stalls += host->back_off.stalls();
  c.inline_calls = g_inline_calls.load(std::memory_order_relaxed);
  return c;
}

}  // namespace anyop
