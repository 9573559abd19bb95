// SPDX-License-Identifier: Apache-2.0
// What each thread keeps between calls: last plans, counts, scope.
#pragma once
#include <atomic>
#include <cstdint>

#include "anyop/scope.h"
#include "runtime/plan.h"

namespace anyop {

// Written by its thread alone, read by any: plain additions, no locked instruction.
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
  KernelCounters* counters = nullptr;  // [kernels + 1]; the last is the composition's
};

struct ThreadState {
  OperatorSlot* slots = nullptr;
  int n_slots = 0;
  std::uint64_t scope_word = 0;        // what `scope` adds to ProcessWord
  std::uint64_t process_mask = ~0ull;  // what `scope` leaves of ProcessWord
  ScopeState scope;
};

// Null until the thread's first call. One word of static TLS: no call, also in a loaded library.
extern constinit thread_local ThreadState* thread_state [[gnu::tls_model("initial-exec")]];

// The calling thread's state with a slot for `op`.
OperatorSlot& SlotFor(const Operator& op);
ThreadState& State();

// Makes `plan` (with the caller's reference) the thread's last one. The plan that it replaces stays
// valid until 32 others were replaced: a re-entrant call must not free what its caller runs next.
void KeepLast(OperatorSlot& slot, Plan* plan);

// The sums of all threads, ended ones included.
struct KernelCounts {
  std::uint64_t calls = 0, fallbacks = 0, copies = 0;
};
KernelCounts ReadCounts(const Operator& op, int kernel);

}  // namespace anyop
