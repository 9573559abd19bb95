// SPDX-License-Identifier: Apache-2.0
// Counts of what ran, per operator and kernel, over all threads.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace anyop {

struct CounterRow {
  std::string op;      // full name
  std::string kernel;  // "means" for the composition
  std::uint64_t calls = 0;
  std::uint64_t fallbacks = 0;  // calls that ran the composition because no kernel accepted
  std::uint64_t copies = 0;     // arguments copied to contiguous memory
  std::string device = "cpu";   // on which the calls ran: Device::name()
};
// Rows with at least one call or fallback since the last reset.
std::vector<CounterRow> Counters();
void ResetCounters();

struct PlanCounters {
  std::uint64_t hits = 0;    // found in the cache; the last plan of a thread is not counted
  std::uint64_t misses = 0;  // made
  std::uint64_t plans = 0;   // in the caches now
};
PlanCounters PlanCacheCounters();

}  // namespace anyop
