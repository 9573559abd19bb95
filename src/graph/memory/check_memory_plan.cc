// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "graph/memory/memory_plan.h"

namespace anyop {
namespace {

std::string Show(std::span<const Lifetime> buffers, const MemoryPlan& plan, int i) {
  const Lifetime& b = buffers[std::size_t(i)];
  const std::int64_t at = plan.offsets[std::size_t(i)];
  return "buffer " + std::to_string(i) + " [" + std::to_string(at) + ", " +
         std::to_string(at + b.bytes) + ") of steps " + std::to_string(b.first) + " to " +
         std::to_string(b.last);
}

}  // namespace

std::string CheckMemoryPlan(std::span<const Lifetime> buffers, const MemoryPlan& plan) {
  if (plan.offsets.size() != buffers.size()) return "the plan has another number of buffers";
  std::multimap<int, int> starts, ends;
  for (int i = 0; i < int(buffers.size()); ++i) {
    const Lifetime& b = buffers[std::size_t(i)];
    const std::int64_t at = plan.offsets[std::size_t(i)];
    if (at < 0 || at % kArenaAlignment || at + b.bytes > plan.peak_bytes) {
      return Show(buffers, plan, i) + " does not lie in the arena, or is not aligned";
    }
    if (!b.bytes) continue;
    starts.emplace(b.first, i);
    ends.emplace(b.last, i);
  }
  std::map<std::int64_t, int> alive;  // by offset; disjoint
  auto end = ends.begin();
  for (const auto& [step, i] : starts) {
    for (; end != ends.end() && end->first < step; ++end) {
      alive.erase(plan.offsets[std::size_t(end->second)]);
    }
    const std::int64_t at = plan.offsets[std::size_t(i)];
    const auto above = alive.lower_bound(at);
    if (above != alive.end() && above->first < at + buffers[std::size_t(i)].bytes) {
      return Show(buffers, plan, i) + " overlaps " + Show(buffers, plan, above->second);
    }
    if (above != alive.begin()) {
      const int below = std::prev(above)->second;
      if (plan.offsets[std::size_t(below)] + buffers[std::size_t(below)].bytes > at) {
        return Show(buffers, plan, i) + " overlaps " + Show(buffers, plan, below);
      }
    }
    alive.emplace(at, i);
  }
  return "";
}

}  // namespace anyop
