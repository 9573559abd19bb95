// SPDX-License-Identifier: Apache-2.0
// The longer search for a small arena, for sets of buffers that are hard to place.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "graph/memory/memory_plan.h"

namespace anyop {

// Lower where it can be found within this many rounds; else `plan` stays. The bytes of buffers are
// multiples of kArenaAlignment. The same input gives the same plan.
void ImprovePlan(std::span<const Lifetime> buffers, int rounds, MemoryPlan* plan);

// Buffers that together are one: those of equal lifetimes lie on one another, and of equal bytes
// follow in one another's place.
struct GluedBuffers {
  struct Part {
    int buffer;
    std::int64_t at;  // from the beginning of the whole
  };
  std::vector<Lifetime> wholes;
  std::vector<std::vector<Part>> parts;  // by whole
};
GluedBuffers Glue(std::span<const Lifetime> buffers);

}  // namespace anyop
