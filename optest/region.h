// SPDX-License-Identifier: Apache-2.0
// A parallel region that a test runs: it is cut into parts, whose order and threads the test
// chooses.
#pragma once
#include <cstdint>

#include "optest/memory.h"

namespace anyop::optest {

struct Region {
  void (*fn)(void* arg, std::int64_t begin, std::int64_t end);
  void* arg;
  std::int64_t n;

  std::int64_t parts() const;
  void RunPart(std::int64_t i) const;
  void RunWhole() const;
};

// Whether this thread runs a part: regions within one are not cut.
bool IsInPart();

void RunBackwards(const Region& region);
// Part i on thread i % threads, the caller among them.
void RunOnThreads(const Region& region, int threads);
// A part of RunOnThreads calls it before it claims work that any thread may take. Each thread waits
// in its second claim until all others have ended their first: none is so fast that it takes all.
void BeforeClaim();
// Part 1 in the middle of part 0, part 3 in that of part 2, ... False if a part waits for another:
// those that follow are not stopped.
bool RunInPairs(const Region& region, const Pages& pages, int access);

}  // namespace anyop::optest
