// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/thread_state.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "platform/of_thread.h"
#include "runtime/plan/scope_carrier.h"

namespace anyop {

constinit thread_local ThreadState* thread_state = nullptr;

namespace {

struct OwnedState;

// Never destroyed: threads may end after static destructors.
struct AllThreads {
  std::mutex mutex;
  std::set<OwnedState*> alive;
  std::map<std::pair<int, int>, KernelCounts> ended;  // by operator and kernel
  std::map<DeviceCount, KernelCounts> ended_on_devices;
};
AllThreads& Threads() {
  static AllThreads* all = new AllThreads;
  return *all;
}

struct OwnedState : ThreadState {
  std::vector<OperatorSlot> storage;
  std::vector<std::unique_ptr<KernelCounters[]>> counters;
  std::vector<int> n_counters;
  std::map<DeviceCount, KernelCounters> on_devices;
  // Plans that are no longer last while calls of this thread still run them, and how many do.
  std::vector<std::pair<Plan*, std::int64_t>> held;

  OwnedState() {
    AllThreads& all = Threads();
    std::lock_guard lock(all.mutex);
    all.alive.insert(this);
  }
  ~OwnedState() {
    thread_state = nullptr;  // objects that end later may make calls, which get a new state
    AllThreads& all = Threads();
    {
      std::lock_guard lock(all.mutex);
      all.alive.erase(this);
      for (std::size_t i = 0; i < counters.size(); ++i) {
        for (int k = 0; k < n_counters[i]; ++k) AddTo(all.ended[{int(i), k}], counters[i][k]);
      }
      for (const auto& [what, c] : on_devices) AddTo(all.ended_on_devices[what], c);
    }
    for (OperatorSlot& s : storage) Release(s.last);
  }
  static void AddTo(KernelCounts& sum, const KernelCounters& c) {
    sum.calls += c.calls.value.load(std::memory_order_relaxed);
    sum.fallbacks += c.fallbacks.value.load(std::memory_order_relaxed);
    sum.copies += c.copies.value.load(std::memory_order_relaxed);
  }
  void AddSlot(const Operator& op) {
    std::lock_guard lock(Threads().mutex);  // ReadCounts looks at these vectors
    const std::size_t n = std::size_t(op.index) + 1;
    if (storage.size() < n) {
      storage.resize(std::max(n, storage.size() * 2));
      counters.resize(storage.size());
      n_counters.resize(storage.size());
      slots = storage.data();
      n_slots = int(storage.size());
    }
    const int kernels = int(op.kernels.size()) + 1;
    counters[n - 1] = std::make_unique<KernelCounters[]>(std::size_t(kernels));
    n_counters[n - 1] = kernels;
    storage[n - 1].counters = counters[n - 1].get();
  }
};

OwnedState& Owned() {
  OwnedState& state = OfThread<OwnedState>::Get();
  if (!thread_state) {
    state.scope = InitialScope();
    state.scope_word = state.scope.is_strict;
    thread_state = &state;
  }
  return state;
}

}  // namespace

ThreadState& State() { return thread_state ? *thread_state : Owned(); }

OperatorSlot& SlotFor(const Operator& op) {
  ThreadState& state = State();
  if (op.index >= state.n_slots || !state.slots[op.index].counters) Owned().AddSlot(op);
  return state.slots[op.index];
}

void KeepLast(OperatorSlot& slot, Plan* plan) {
  if (slot.last == plan) return Release(plan);  // the slot has a reference already
  auto& held = Owned().held;
  if (slot.holds) {
    held.emplace_back(slot.last, slot.holds);
  } else {
    Release(slot.last);
  }
  slot.last = plan;
  slot.holds = 0;
  const auto found = std::ranges::find(held, plan, &std::pair<Plan*, std::int64_t>::first);
  if (found == held.end()) return;
  slot.holds = found->second;  // a call further out runs it too
  held.erase(found);
  Release(plan);
}

void EndHold(Plan* plan) {
  auto& held = Owned().held;
  const auto found = std::ranges::find(held, plan, &std::pair<Plan*, std::int64_t>::first);
  if (--found->second) return;
  held.erase(found);
  Release(plan);
}

KernelCounts ReadCounts(const Operator& op, int kernel) {
  AllThreads& all = Threads();
  std::lock_guard lock(all.mutex);
  KernelCounts sum;
  const auto ended = all.ended.find({op.index, kernel});
  if (ended != all.ended.end()) sum = ended->second;
  for (OwnedState* t : all.alive) {
    if (std::size_t(op.index) >= t->counters.size() || !t->counters[std::size_t(op.index)])
      continue;
    OwnedState::AddTo(sum, t->counters[std::size_t(op.index)][kernel]);
  }
  return sum;
}

// Without the lock where the entry is there: this thread alone adds any.
KernelCounters& DeviceCountersOf(const Operator& op, const Plan& plan) {
  auto& mine = Owned().on_devices;
  const DeviceCount what{op.index, plan.counters, int(plan.device.device_type),
                         plan.device.device_id};
  if (const auto found = mine.find(what); found != mine.end()) return found->second;
  const std::lock_guard lock(Threads().mutex);  // ReadDeviceCounts looks at it
  return mine[what];
}

std::map<DeviceCount, KernelCounts> ReadDeviceCounts() {
  AllThreads& all = Threads();
  const std::lock_guard lock(all.mutex);
  std::map<DeviceCount, KernelCounts> sums = all.ended_on_devices;
  for (OwnedState* t : all.alive) {
    for (const auto& [what, c] : t->on_devices) OwnedState::AddTo(sums[what], c);
  }
  return sums;
}

}  // namespace anyop
