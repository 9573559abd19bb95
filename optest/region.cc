// SPDX-License-Identifier: Apache-2.0
#include "optest/region.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "optest/interrupt.h"
#include "optest/worker.h"

namespace anyop::optest {
namespace {

constexpr std::int64_t kMostParts = 16;

thread_local bool t_in_part = false;

struct InPart {
  InPart() { t_in_part = true; }
  ~InPart() { t_in_part = false; }
};

}  // namespace

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
  const auto run = [&](int thread) {
    missing.fetch_sub(1);
    while (missing.load() > 0) sched_yield();  // all begin at once
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
