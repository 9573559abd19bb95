// SPDX-License-Identifier: Apache-2.0
#include "platform/pool.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <system_error>
#include <thread>
#include <utility>

#include "platform/affinity.h"

namespace anyop {
namespace {

constexpr std::int64_t kMicrosecond = 1000, kMillisecond = 1000000;
constexpr std::int64_t kSpin = 50 * kMicrosecond;  // then a worker yields between looks
// Then it sleeps. If it slept sooner, each call of Python would have to wake it.
constexpr std::int64_t kStayAwake = 1 * kMillisecond;
constexpr double kWorthWaking = 100.0 * kMicrosecond;  // waking costs the caller 25 us
constexpr std::int64_t kSteady = 200 * kMicrosecond;   // small regions closer than this add up
constexpr int kPausesPerLook = 64;                     // between two readings of the clock

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

constexpr int Next(std::uint64_t word) { return int(word & 0xfff); }
constexpr int Chunks(std::uint64_t word) { return int(word >> 12 & 0xfff); }
constexpr int Threads(std::uint64_t word) { return int(word >> 24 & 0xfff); }
constexpr std::uint64_t Epoch(std::uint64_t word) { return word >> 36; }
constexpr bool HasWork(std::uint64_t word) { return Next(word) < Chunks(word); }
constexpr std::uint64_t Publish(std::uint64_t old, int threads, int chunks) {
  return ((old >> 36) + 1) << 36 | std::uint64_t(threads) << 24 | std::uint64_t(chunks) << 12;
}

void FutexWake(std::atomic<std::uint32_t>& word, std::uint32_t mask) {
  syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, 1 << 30, nullptr, nullptr, mask);
}
void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t value, std::uint32_t mask) {
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, value, nullptr, nullptr, mask);
}
// Workers 1 .. threads-1. A futex has 32 bits for up to 255 workers, so that ids share them; who is
// woken without need sleeps again.
std::uint32_t FutexMask(int threads) { return threads >= 32 ? ~0u : ((1u << threads) - 1) & ~1u; }

}  // namespace

// A claimed chunk keeps its region alive, so region_ is read after the claim only. A word that
// comes round to an old value (28 bits of epoch) does no harm: a claim that succeeds is one of the
// region that runs now.
bool Pool::Claim(std::uint64_t& word, int* chunk) {
  while (HasWork(word)) {
    if (word_.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel,
                                    std::memory_order_acquire)) {
      *chunk = Next(word);
      return true;
    }
  }
  return false;
}

void Pool::RunChunk(int chunk) {
  const Region& r = region_;
  try {
    r.fn(r.arg, r.n * chunk / r.chunks, r.n * (chunk + 1) / r.chunks);
  } catch (...) {
    if (failures_.fetch_add(1, std::memory_order_relaxed) == 0) failure_ = std::current_exception();
  }
}

int Pool::TakeChunks() {
  std::uint64_t word = word_.load(std::memory_order_relaxed);
  int mine = 0;
  for (int chunk; Claim(word, &chunk); ++mine) {
    RunChunk(chunk);
    word = word_.load(std::memory_order_relaxed);
  }
  return mine;
}

bool Pool::Run(const Region& region, double estimated_ns) {
  // Looked at before the exchange, which takes the cache line from the caller that has the pool.
  if (busy_.load(std::memory_order_relaxed) || busy_.exchange(true, std::memory_order_acquire)) {
    return false;
  }
  struct Release {
    std::atomic<bool>& busy;
    ~Release() { busy.store(false, std::memory_order_release); }
  } release{busy_};
  if (back_off_.IsOn()) return false;
  const int sleepers = CountSleepers(region.threads);
  const bool must_wake = sleepers > 0 && IsWorthWaking(estimated_ns);
  if (!must_wake && sleepers >= region.threads - 1) return false;  // no worker would come
  region_ = region;
  done_.store(0, std::memory_order_relaxed);
  const BackOff::Start start = back_off_.Begin();
  // Before Wake's increment of futex_: a worker that reads the new futex_ (Sleep) sees this word
  // too, so that no wake is lost.
  word_.store(Publish(word_.load(std::memory_order_relaxed), region.threads, region.chunks),
              std::memory_order_seq_cst);
  if (must_wake) Wake(region.threads);
  const int mine = TakeChunks();
  const int claimed = region.chunks - mine;
  // The usual region ends here, without a second look at the clock. After one that was late (cpu_ns
  // is there), and where workers were woken, the back-off must hear how long this one took.
  if (done_.load(std::memory_order_acquire) != claimed || must_wake || start.cpu_ns >= 0) {
    AwaitWorkers(claimed, start, mine);
  }
  // Only the holder of busy_ counts, so that no locked addition is needed.
  regions_.store(regions_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  worker_chunks_.store(worker_chunks_.load(std::memory_order_relaxed) + claimed,
                       std::memory_order_relaxed);
  if (failures_.load(std::memory_order_relaxed) > 0) {
    failures_.store(0, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  return true;
}

void Pool::AwaitWorkers(int claimed, const BackOff::Start& start, int mine) {
  const std::int64_t begin = NowNs();
  std::int64_t now = begin;
  for (int i = 1; done_.load(std::memory_order_acquire) != claimed; ++i) {
    Pause();
    if (i % kPausesPerLook) continue;
    now = NowNs();
    if (now - begin > kSpin) sched_yield();
  }
  back_off_.Waited(start, begin, now, mine);
}

// Workers of a region that sleep or have not been started yet.
int Pool::CountSleepers(int threads) const {
  int sleepers = std::max(0, threads - 1 - workers_);
  for (int word = 0; word * 64 < threads; ++word) {
    const int bits = threads - word * 64;
    const std::uint64_t mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;
    sleepers += std::popcount(asleep_[word].load(std::memory_order_relaxed) & mask);
  }
  return sleepers;
}

// Small regions that follow one another closely are worth waking the workers for together.
bool Pool::IsWorthWaking(double estimated_ns) {
  if (estimated_ns < kWorthWaking) {
    const std::int64_t now = NowNs();
    const bool is_steady = now - last_request_ns_ < kSteady;
    small_work_ns_ = (is_steady ? small_work_ns_ : 0) + estimated_ns;
    last_request_ns_ = now + std::int64_t(estimated_ns);
    if (small_work_ns_ < kWorthWaking) return false;
  }
  small_work_ns_ = 0;
  return true;
}

void Pool::Wake(int threads) {
  wakes_.fetch_add(1, std::memory_order_relaxed);
  StartWorkers(threads);
  futex_.fetch_add(1, std::memory_order_seq_cst);
  FutexWake(futex_, FutexMask(threads));
}

void Pool::StartWorkers(int threads) {
  if (workers_ >= threads - 1) return;
  cpu_set_t processors;
  const bool is_known = ReadProcessors(processors);
  for (; workers_ < threads - 1; ++workers_) {
    try {
      std::thread([this, id = workers_ + 1, is_known, processors] {
        if (is_known) RunOn(processors);
        Work(id);
      }).detach();
    } catch (const std::system_error&) {
      return;  // the system has no more threads: the others do the work
    }
  }
}

void Pool::Work(int id) {
  std::int64_t idle_since = 0;
  std::uint64_t seen = 0;  // the last region that this worker might have helped with
  for (int pauses = 0;;) {
    std::uint64_t word = word_.load(std::memory_order_acquire);
    for (int chunk; id < Threads(word) && Claim(word, &chunk);) {
      RunChunk(chunk);
      done_.fetch_add(1, std::memory_order_release);
      word = word_.load(std::memory_order_acquire);
    }
    if (Epoch(word) != seen && id < Threads(word)) {
      seen = Epoch(word);
      idle_since = 0;
    }
    Pause();
    if (++pauses % kPausesPerLook) continue;
    const std::int64_t now = NowNs();
    if (idle_since == 0) idle_since = now;
    if (now - idle_since > kStayAwake) {
      Sleep(id);
      idle_since = 0;
    } else if (now - idle_since > kSpin) {
      sched_yield();
    }
  }
}

void Pool::Sleep(int id) {
  // Read first: if Wake comes from here on, the value has changed and FutexWait returns at once.
  const std::uint32_t value = futex_.load(std::memory_order_seq_cst);
  const std::uint64_t bit = 1ull << id % 64;
  asleep_[id / 64].fetch_or(bit, std::memory_order_seq_cst);
  const std::uint64_t word = word_.load(std::memory_order_seq_cst);
  if (!HasWork(word) || id >= Threads(word)) FutexWait(futex_, value, 1u << id % 32);
  asleep_[id / 64].fetch_and(~bit, std::memory_order_seq_cst);
}

PoolCounters Pool::Read() const {
  PoolCounters c;
  c.regions = regions_.load(std::memory_order_relaxed);
  c.worker_chunks = worker_chunks_.load(std::memory_order_relaxed);
  c.wakes = wakes_.load(std::memory_order_relaxed);
  c.stalls = back_off_.stalls();
  return c;
}

}  // namespace anyop
