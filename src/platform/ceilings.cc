// SPDX-License-Identifier: Apache-2.0
#include "platform/ceilings.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "platform/arena.h"
#include "platform/ceiling_loops.h"
#include "platform/cpu.h"
#include "platform/threads.h"

namespace anyop {
namespace {

// For each of about 22 figures: four levels, read and copied, and three rates, for one thread and
// for all of them.
constexpr double kSecondsEach = 0.05;
constexpr std::int64_t kKiB = 1 << 10, kMiB = 1 << 20;
constexpr int kFewestRounds = 5;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Level {
  std::string name;
  std::int64_t bytes;  // per thread
};

// Half of a core's own caches and a quarter of a thread's share of L3, so that the bytes stay in
// that level beside all else; and four times L3, so that they do not.
std::vector<Level> Levels(int threads) {
  const CacheSizes& c = Caches();
  const auto whole = [](std::int64_t bytes) { return std::max(bytes & ~(kKiB - 1), kKiB); };
  std::vector<Level> levels{{"L1", whole(c.l1d ? c.l1d / 2 : 16 * kKiB)}};
  if (c.l2) levels.push_back({"L2", whole(c.l2 / 2)});
  const std::int64_t share = c.l3 / (4 * threads);
  // Otherwise the figure would be that of L2.
  if (share > c.l2) levels.push_back({"L3", whole(share)});
  const std::int64_t dram = std::clamp(4 * c.l3 / threads, 32 * kMiB, 256 * kMiB);
  levels.push_back({"DRAM", dram});
  return levels;
}

// Runs body(thread) on all threads at once, again and again, and returns the seconds of the
// fastest round; a round lasts until its last thread is done.
double FastestRound(int threads, const std::function<void(int)>& body) {
  std::vector<std::thread> others;
  std::atomic<int> arrived{0}, round{0};
  std::atomic<bool> is_over{false};
  for (int t = 1; t < threads; ++t) {
    others.emplace_back([&, t] {
      for (int next = 1;; ++next) {
        while (round.load(std::memory_order_acquire) < next) std::this_thread::yield();
        if (is_over.load(std::memory_order_relaxed)) return;
        body(t);
        arrived.fetch_add(1, std::memory_order_release);
      }
    });
  }
  const double end = Now() + kSecondsEach;
  double best = 1e9;
  for (int i = 0; i < kFewestRounds || Now() < end; ++i) {
    arrived.store(0, std::memory_order_relaxed);  // the increment of `round` publishes it
    const double start = Now();
    round.fetch_add(1, std::memory_order_release);
    body(0);
    while (arrived.load(std::memory_order_acquire) < threads - 1) std::this_thread::yield();
    if (i > 0) best = std::min(best, Now() - start);  // the first round warms up
  }
  is_over.store(true, std::memory_order_relaxed);
  round.fetch_add(1, std::memory_order_release);
  for (std::thread& t : others) t.join();
  return best;
}

void MeasureMemory(const CeilingLoops& loops, int threads, std::vector<Bandwidth>* out) {
  const std::vector<Level> levels = Levels(threads);
  const std::int64_t stride = levels.back().bytes;
  const Workspace memory(std::uint64_t(stride * threads));
  char* base = static_cast<char*>(memory.data());
  // Each thread's part is first touched by a thread of its own: Linux gives a page a place near the
  // processor that touches it first.
  std::vector<std::thread> owners;
  for (int t = 0; t < threads; ++t) {
    owners.emplace_back([=] { std::memset(base + t * stride, 1, std::size_t(stride)); });
  }
  for (std::thread& t : owners) t.join();
  for (const Level& level : levels) {
    // Small levels are gone over often enough that starting the threads does not count.
    const std::int64_t times = std::max<std::int64_t>(1, 4 * kMiB / level.bytes);
    const std::int64_t half = level.bytes / 2;
    const double read = FastestRound(threads, [&](int t) {
      for (std::int64_t i = 0; i < times; ++i) loops.read(base + t * stride, level.bytes);
    });
    const double copy = FastestRound(threads, [&](int t) {
      char* p = base + t * stride;
      for (std::int64_t i = 0; i < times; ++i) loops.copy(p + half, p, half);
    });
    const double bytes = double(times * level.bytes) * threads;
    out->push_back({level.name, level.bytes, threads, bytes / read * 1e-9, bytes / copy * 1e-9});
  }
}

void MeasureRate(const char* name, RateLoop loop, double operations, int threads,
                 std::vector<Rate>* out) {
  if (!loop) return;
  constexpr std::int64_t kRounds = 100000;
  const double seconds = FastestRound(threads, [&](int) { loop(kRounds); });
  out->push_back({name, threads, kRounds * kAccumulators * operations * threads / seconds * 1e-9});
}

template <class T, class Name>
const T* Find(const std::vector<T>& list, Name T::*field, std::string_view name, int threads) {
  for (const T& entry : list) {
    if (entry.*field == name && entry.threads == threads) return &entry;
  }
  return nullptr;
}

}  // namespace

const Bandwidth* Ceilings::bandwidth(std::string_view level, int threads) const {
  return Find(bandwidths, &Bandwidth::level, level, threads);
}
const Rate* Ceilings::rate(std::string_view name, int threads) const {
  return Find(rates, &Rate::name, name, threads);
}

Ceilings MeasureCeilings() {
  const double start = Now();
  const CeilingLoops loops = WidestLoops();
  Ceilings ceilings;
  for (const int threads : {1, NumThreads()}) {
    if (threads == 1 && !ceilings.rates.empty()) break;  // NumThreads() is 1
    MeasureMemory(loops, threads, &ceilings.bandwidths);
    const double bytes = loops.vector_bytes;  // two operations for each element of a source
    MeasureRate("f32 fma", loops.fma, 2 * bytes / 4, threads, &ceilings.rates);
    const double dot = loops.has_tiles ? kTileOperations : 2 * bytes / 2;
    MeasureRate("bf16 dot", loops.bf16_dot, dot, threads, &ceilings.rates);
    MeasureRate("int8 dot", loops.int8_dot, 2 * bytes, threads, &ceilings.rates);
  }
  TrimArena();  // nothing uses the DRAM level's 32 MiB or more per thread again
  ceilings.seconds = Now() - start;
  return ceilings;
}

const Ceilings& MachineCeilings() {
  static const Ceilings ceilings = MeasureCeilings();
  return ceilings;
}

}  // namespace anyop
