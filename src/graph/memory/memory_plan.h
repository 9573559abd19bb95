// SPDX-License-Identifier: Apache-2.0
// Where the buffers of a program lie in one arena, so that those which are never alive together may
// share memory.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace anyop {

// A buffer: its size, and the first and last step (both included) at which it holds something.
struct Lifetime {
  std::int64_t bytes = 0;
  int first = 0, last = 0;
};

struct MemoryPlan {
  std::vector<std::int64_t> offsets;  // in bytes, multiples of kArenaAlignment
  std::int64_t peak_bytes = 0;        // size of the arena
  std::int64_t bound_bytes = 0;       // no plan can be smaller: most bytes alive at one step
};

inline constexpr std::int64_t kArenaAlignment = 64;

// Places buffers by size, each into the tightest gap. Where the result is above the bound, a search
// of at most this many rounds follows (skyline.h). The same input gives the same plan. Cost: 1000
// buffers of a decoder 0.3 ms, a round of the search about a millisecond. Throws OutOfMemory where
// the bytes of all buffers together are 2^63 or more.
MemoryPlan PlanMemory(std::span<const Lifetime> buffers, int rounds = 50);

// The first defect of a plan: two buffers that are alive together and overlap, one that ends beyond
// the arena, starts below it, or is not aligned. "" if there is none. Shares no code with
// PlanMemory.
std::string CheckMemoryPlan(std::span<const Lifetime> buffers, const MemoryPlan& plan);

}  // namespace anyop
