// SPDX-License-Identifier: Apache-2.0
// Lists of block copies for tests.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "optest/optest.h"

namespace anyop::optest {

// Fills `mapping` with pairs of which no target is a target twice, or, with one cache, a source;
// about one in five is skipped, in either way.
inline void MakePairs(Call& call, std::int64_t sources, std::int64_t targets, bool is_one_cache) {
  std::vector<std::int64_t> free(std::size_t(targets), 0);
  std::iota(free.begin(), free.end(), 0);
  std::shuffle(free.begin(), free.end(), call.random());
  // Of one cache the lower half are sources only.
  const std::int64_t split = is_one_cache ? targets / 2 : 0;
  std::erase_if(free, [&](std::int64_t b) { return b < split; });
  const std::int64_t readable = is_one_cache ? split : sources;
  Array& mapping = call.array("mapping");
  for (std::int64_t i = 0; i < mapping.dim(0); ++i) {
    const bool none = free.empty() || readable == 0;
    const std::int64_t skipped = call.Draw(0, 9);
    mapping.SetInt(2 * i, none || skipped == 0 ? -1 : call.Draw(0, readable - 1));
    mapping.SetInt(2 * i + 1, none || skipped == 1 ? -3 : free.back());
    if (!none) free.pop_back();
  }
}

}  // namespace anyop::optest
