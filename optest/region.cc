// SPDX-License-Identifier: Apache-2.0
#include "optest/region.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>

#include "optest/interrupt.h"
#include "optest/worker.h"

namespace anyop::optest {
namespace {

constexpr std::int64_t kMostParts = 16;

// Of a thread that waits for others: these may wait for what it holds.
constexpr std::chrono::milliseconds kPatience{100};

thread_local bool t_in_part = false;

// Atomics of code that the thread sanitizer does not watch: what waits here is not ordered for it.
struct FirstClaims {
  std::atomic<int> missing;  // threads that have not ended their first claim
};
thread_local FirstClaims* t_first_claims = nullptr;  // null: this thread waits no more
thread_local int t_claims = 0;

void EndFirstClaim() {
  if (t_first_claims) t_first_claims->missing.fetch_sub(1);
  t_first_claims = nullptr;
}

struct InPart {
  InPart() { t_in_part = true; }
  ~InPart() { t_in_part = false; }
};

struct AtEnd {
  ~AtEnd() { EndFirstClaim(); }
};

}  // namespace

void BeforeClaim() {
  if (!t_first_claims || ++t_claims < 2) return;
  const FirstClaims& others = *t_first_claims;
  EndFirstClaim();
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (others.missing.load() > 0 && std::chrono::steady_clock::now() < until) sched_yield();
}

bool IsInPart() { return t_in_part; }

std::int64_t Region::parts() const { return std::min(n, kMostParts); }

void Region::RunPart(std::int64_t i) const {
  const InPart in_part;
  fn(arg, n * i / parts(), n * (i + 1) / parts());
}

void Region::RunWhole() const { fn(arg, 0, n); }

void RunBackwards(const Region& region) {
  for (std::int64_t i = region.parts(); i-- > 0;) region.RunPart(i);
}

void RunOnThreads(const Region& region, int threads) {
  const int count = int(std::min<std::int64_t>(threads, region.parts()));
  std::atomic<int> missing = count;
  FirstClaims first_claims{count};
  const auto run = [&](int thread) {
    missing.fetch_sub(1);
    while (missing.load() > 0) sched_yield();  // all begin at once
    t_first_claims = &first_claims;
    t_claims = 0;
    const AtEnd end_first_claim;
    for (std::int64_t i = thread; i < region.parts(); i += count) region.RunPart(i);
  };
  for (int t = 1; t < count; ++t) {
    Worker::Number(t).Give([&run, t] { run(t); });
    Worker::Number(t).Go();
  }
  std::exception_ptr error;
  try {
    run(0);
  } catch (...) {
    error = std::current_exception();
  }
  for (int t = 1; t < count; ++t) Worker::Number(t).Await();
  if (error) std::rethrow_exception(error);
  for (int t = 1; t < count; ++t) Worker::Number(t).Rethrow();
}

bool RunInPairs(const Region& region, const Pages& pages, int access) {
  bool may_stop = true;
  std::int64_t i = 0;
  for (; may_stop && i + 1 < region.parts(); i += 2) {
    may_stop = RunInterrupted(
        pages, access, [&] { region.RunPart(i); }, [&] { region.RunPart(i + 1); });
  }
  for (; i < region.parts(); ++i) region.RunPart(i);
  return may_stop;
}

}  // namespace anyop::optest
