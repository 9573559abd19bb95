// SPDX-License-Identifier: Apache-2.0
// What each thread keeps between calls: last plans, counts, scope; and the plans of its calls.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>

#include "anyop/scope.h"
#include "runtime/plan/plan.h"

namespace anyop {

// Written by its thread alone, read by any. So an addition is a load and a store, and no locked
// instruction.
struct OwnCounter {
  std::atomic<std::uint64_t> value{0};
  void Add(std::uint64_t n = 1) {
    value.store(value.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
};

struct KernelCounters {
  OwnCounter calls, fallbacks, copies;
};

struct OperatorSlot {
  Plan* last = nullptr;                // with a reference
  std::int64_t holds = 0;              // HeldPlans of `last`
  KernelCounters* counters = nullptr;  // [kernels + 1]; the last is the composition's
};

struct ThreadState {
  OperatorSlot* slots = nullptr;
  int n_slots = 0;
  std::uint64_t scope_word = 0;        // the bits of a key's scope that `scope` sets
  std::uint64_t process_mask = ~0ull;  // the bits of ProcessWord that `scope` does not override
  ScopeState scope;
};

// Null until the thread's first call. One word of static TLS: no call, also in a loaded library.
extern constinit thread_local ThreadState* thread_state [[gnu::tls_model("initial-exec")]];

// The calling thread's state with a slot for `op`.
OperatorSlot& SlotFor(const Operator& op);
ThreadState& State();

// Makes `plan` (with the caller's reference) the thread's last one. The plan that it replaces lives
// on while a call of this thread holds it.
void KeepLast(OperatorSlot& slot, Plan* plan);
// Ends a hold of a plan that is no longer the last one of its operator on this thread.
void EndHold(Plan* plan);

// The plan of a call, from its making to the end of the call. Results are allocated and kernels run
// meanwhile: both may run code of Python's, which may make any number of calls on this thread, so
// that neither the thread's slot nor the cache keeps the plan. A hold is counted in the slot,
// because a reference of the plan's own, which all threads share, would cost 10 ns.
class HeldPlan {
 public:
  // The last plan of its operator on this thread, and a hold that is counted already.
  struct Counted {
    ThreadState* state;
    Plan* plan;
  };
  explicit HeldPlan(Counted counted) : counted_(counted) {}
  ~HeldPlan() {
    OperatorSlot& slot = counted_.state->slots[counted_.plan->op->index];
    if (slot.last == counted_.plan) [[likely]] {
      --slot.holds;
    } else {
      EndHold(counted_.plan);
    }
  }
  HeldPlan(const HeldPlan&) = delete;
  HeldPlan& operator=(const HeldPlan&) = delete;

  Plan& operator*() const { return *counted_.plan; }
  Plan* operator->() const { return counted_.plan; }
  Plan* get() const { return counted_.plan; }

 private:
  const Counted counted_;
};

// The sums of all threads, ended ones included.
struct KernelCounts {
  std::uint64_t calls = 0, fallbacks = 0, copies = 0;
};
KernelCounts ReadCounts(const Operator& op, int kernel);

// The key of counts of calls on devices. They are kept in a map, apart from the host's arrays: how
// many kernels an operator has is known when it is registered, which devices its calls use is not.
struct DeviceCount {
  int op, kernel;  // Operator::index; Plan::counters
  int device_type, device_number;
  auto operator<=>(const DeviceCount&) const = default;
};
// The calling thread's own.
KernelCounters& DeviceCountersOf(const Operator& op, const Plan& plan);
std::map<DeviceCount, KernelCounts> ReadDeviceCounts();

}  // namespace anyop
