// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/counters.h"

#include <map>
#include <mutex>

#include "runtime/device/device.h"
#include "runtime/plan/plan_cache.h"
#include "runtime/plan/thread_state.h"
#include "runtime/run/call.h"

namespace anyop {
namespace {

// The counts at the last reset, which are subtracted from then on: only its own thread may write a
// counter.
struct Baseline {
  std::mutex mutex;
  std::map<std::pair<int, int>, KernelCounts> counts;
  std::map<DeviceCount, KernelCounts> on_devices;
};
Baseline& TheBaseline() {
  static Baseline* baseline = new Baseline;
  return *baseline;
}

template <class Key>
KernelCounts Since(const std::map<Key, KernelCounts>& counts, const Key& key, KernelCounts now) {
  const auto found = counts.find(key);
  const KernelCounts then = found == counts.end() ? KernelCounts{} : found->second;
  return {now.calls - then.calls, now.fallbacks - then.fallbacks, now.copies - then.copies};
}

void AddRow(const Operator& op, int kernel, Device device, const KernelCounts& counts,
            std::vector<CounterRow>* rows) {
  if (!counts.calls && !counts.fallbacks) return;
  const bool is_kernel = kernel < int(op.kernels.size());
  rows->push_back({op.name, is_kernel ? op.kernels[std::size_t(kernel)].name : "means",
                   counts.calls, counts.fallbacks, counts.copies, device.name()});
}

}  // namespace

std::vector<CounterRow> Counters() {
  Baseline& baseline = TheBaseline();
  std::lock_guard lock(baseline.mutex);
  std::vector<CounterRow> rows;
  const auto on_devices = ReadDeviceCounts();
  for (const Operator* op : Operators()) {
    for (int k = 0; k <= int(op->kernels.size()); ++k) {
      AddRow(*op, k, Device(), Since(baseline.counts, {op->index, k}, ReadCounts(*op, k)), &rows);
    }
    for (auto at = on_devices.lower_bound({op->index, 0, 0, 0});
         at != on_devices.end() && at->first.op == op->index; ++at) {
      const auto& [what, counts] = *at;
      const DLDevice device{what.device_type, what.device_number};
      AddRow(*op, what.kernel, device, Since(baseline.on_devices, what, counts), &rows);
    }
  }
  return rows;
}

void ResetCounters() {
  Baseline& baseline = TheBaseline();
  std::lock_guard lock(baseline.mutex);
  baseline.on_devices = ReadDeviceCounts();
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
