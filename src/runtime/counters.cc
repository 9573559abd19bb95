// SPDX-License-Identifier: Apache-2.0
#include "runtime/counters.h"

#include <map>
#include <mutex>

#include "runtime/call.h"
#include "runtime/plan_cache.h"
#include "runtime/thread_state.h"

namespace anyop {
namespace {

// What a reset subtracts from then on: the counters themselves belong to their threads.
struct Baseline {
  std::mutex mutex;
  std::map<std::pair<int, int>, KernelCounts> counts;
};
Baseline& TheBaseline() {
  static Baseline* baseline = new Baseline;
  return *baseline;
}

}  // namespace

std::vector<CounterRow> Counters() {
  Baseline& baseline = TheBaseline();
  std::lock_guard lock(baseline.mutex);
  std::vector<CounterRow> rows;
  for (const Operator* op : Operators()) {
    for (int k = 0; k <= int(op->kernels.size()); ++k) {
      const KernelCounts now = ReadCounts(*op, k);
      const auto found = baseline.counts.find({op->index, k});
      const KernelCounts then = found == baseline.counts.end() ? KernelCounts{} : found->second;
      if (now.calls == then.calls) continue;
      const bool is_kernel = k < int(op->kernels.size());
      rows.push_back({op->name, is_kernel ? op->kernels[std::size_t(k)].name : "means",
                      now.calls - then.calls, now.fallbacks - then.fallbacks,
                      now.copies - then.copies});
    }
  }
  return rows;
}

void ResetCounters() {
  Baseline& baseline = TheBaseline();
  std::lock_guard lock(baseline.mutex);
  for (Operator* op : Operators()) {
    for (int k = 0; k <= int(op->kernels.size()); ++k) {
      baseline.counts[{op->index, k}] = ReadCounts(*op, k);
    }
    op->plans->ResetCounts();
  }
}

PlanCounters PlanCacheCounters() {
  PlanCounters sum;
  for (const Operator* op : Operators()) {
    sum.hits += op->plans->hits();
    sum.misses += op->plans->misses();
    sum.plans += op->plans->size();
  }
  return sum;
}

}  // namespace anyop
