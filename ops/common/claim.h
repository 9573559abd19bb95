// SPDX-License-Identifier: Apache-2.0
// Work whose items differ much in cost: threads claim one item at a time.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>

#include "anyop/op.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Less work than this is not worth a second thread: a parallel region costs about 500 ns.
inline constexpr double kInlineNs = 4000;

// Calls run(item, slot) for every item; no two calls of one slot run at once, and there are at most
// ctx.threads slots. counter: an element of the workspace.
template <class F>
[[gnu::always_inline]] inline void ClaimItems(const Context& ctx, std::int64_t* counter,
                                              std::int64_t items, double work_ns, F&& run) {
  // Relaxed: a claim has to be unique, nothing more. ParallelFor orders the memory of its threads.
  std::atomic_ref<std::int64_t> next(*counter);
  next.store(0, std::memory_order_relaxed);
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slot = begin; slot < end; ++slot) {
      for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < items;) {
        run(i, slot);
      }
    }
  };
  const std::int64_t slots = std::min<std::int64_t>(ctx.threads, items);
  if (slots <= 1 || (work_ns < kInlineNs && !ctx.IsCut(slots, slots))) {
    work(0, 1);
  } else {
    ctx.ParallelFor(slots, 1, work);
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
