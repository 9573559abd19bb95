// SPDX-License-Identifier: Apache-2.0
#include "runtime/call.h"

#include <bit>
#include <memory>

#include "platform/arena.h"
#include "runtime/host.h"
#include "runtime/key.h"
#include "runtime/make_plan.h"
#include "runtime/overlap.h"
#include "runtime/plan_cache.h"
#include "runtime/policy.h"
#include "runtime/run.h"
#include "runtime/thread_state.h"

namespace anyop {
namespace {

[[gnu::noinline]] Plan* FindOrMakePlan(Operator& op, anyop_value* frame) {
  OperatorSlot* slot = &SlotFor(op);
  const ScopeState scope = thread_state->scope;
  const std::uint64_t word = ScopeWord(*thread_state);
  if (slot->last && SameKey(slot->last->key.data(), op, frame, word)) return slot->last;
  const KeyBuilder key(op, frame, word);
  const std::uint64_t hash = key.hash();
  Plan* plan = op.plans->Find(key, hash);
  if (!plan) {
    auto made = std::make_unique<Plan>();
    MakePlan(op, frame, scope, *CurrentPolicy(), made.get());
    made->hash = hash;
    made->key.assign(key.data(), key.data() + key.size());
    plan = op.plans->Insert(made.release());
  }
  // A probe calls kernels, which may have called operators: the slots may have moved.
  KeepLast(thread_state->slots[op.index], plan);
  return plan;
}

bool Holds(const ScalarCheck& c, const anyop_value& v) {
  if (v.tag == ANYOP_NONE) return true;
  const auto compare = [&](auto x, auto y) {
    switch (c.op) {
      case NodeOp::kEq:
        return x == y;
      case NodeOp::kNe:
        return x != y;
      case NodeOp::kLt:
        return x < y;
      case NodeOp::kLe:
        return x <= y;
      case NodeOp::kGt:
        return x > y;
      default:
        return x >= y;
    }
  };
  if (v.tag == ANYOP_FLOAT || c.is_float) {
    return compare(v.tag == ANYOP_FLOAT ? v.f : double(v.i), c.f);
  }
  return compare(v.i, c.i);
}

struct Range {
  std::uintptr_t begin, end;
};

// Whether the call's memory is beyond doubt: no written range meets another, all is aligned.
inline bool MemoryIsSimple(const Plan& plan, const anyop_value* frame) {
  Range ranges[kMaxParams + kMaxResults];
  std::uintptr_t misaligned = 0;
  const int n = plan.n_slots;
  for (int i = 0; i < n; ++i) {
    const TensorSlot& s = plan.slots[i];
    const anyop_value& v = frame[s.index];
    if (v.tag != ANYOP_TENSOR) [[unlikely]] {
      ranges[i] = {0, 0};
      continue;
    }
    const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(v.t->data) + v.t->byte_offset;
    misaligned |= at & s.align_mask;
    if (s.is_contiguous) {
      ranges[i] = {at, at + std::uintptr_t(s.bytes)};
    } else {
      const Extent e = ExtentOf(*v.t);
      ranges[i] = {e.begin, e.end};
      if (s.is_written) return false;  // it may meet itself
    }
  }
  bool meets = false;
  for (std::uint64_t left = plan.written_slots; left; left &= left - 1) {
    const int w = std::countr_zero(left);
    const Range mine = ranges[w];
    for (int i = 0; i < n; ++i) {
      const bool is_over = plan.slots[w].over >> i & 1 && mine.begin == ranges[i].begin;
      meets |= (i != w) & !is_over & (mine.begin < ranges[i].end) & (ranges[i].begin < mine.end);
    }
  }
  return !(misaligned | std::uintptr_t(meets));
}

}  // namespace

Plan* GetPlan(Operator& op, anyop_value* frame) {
  const ThreadState* state = thread_state;
  if (state && op.index < state->n_slots) [[likely]] {
    Plan* last = state->slots[op.index].last;
    if (last && SameKey(last->key.data(), op, frame, ScopeWord(*state))) [[likely]] {
      return last;
    }
  }
  return FindOrMakePlan(op, frame);
}

void RunPlan(Operator& op, Plan& plan, anyop_value* frame) {
  for (int i = 0; i < plan.n_scalar_checks; ++i) {
    const ScalarCheck& c = plan.scalar_checks[i];
    if (!Holds(c, frame[c.param])) [[unlikely]] {
      FailScalars(op, plan, frame);
    }
  }
  if (plan.needs_slow_run || !MemoryIsSimple(plan, frame)) [[unlikely]] {
    return RunSlow(op, plan, frame);
  }
  if (plan.is_empty) return;
  RunKernel(op, plan, frame);
}

}  // namespace anyop
