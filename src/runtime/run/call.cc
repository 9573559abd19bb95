// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/call.h"

#include <bit>
#include <memory>

#include "anyop/tensor.h"
#include "platform/arena.h"
#include "platform/float_mode.h"
#include "runtime/memory/overlap.h"
#include "runtime/plan/key.h"
#include "runtime/plan/make_plan.h"
#include "runtime/plan/plan_cache.h"
#include "runtime/plan/policy.h"
#include "runtime/plan/scope_carrier.h"
#include "runtime/plan/services.h"
#include "runtime/plan/thread_state.h"
#include "runtime/registry/replace.h"
#include "runtime/run/run.h"
#include "signature/comparison.h"

namespace anyop {
namespace {

inline HeldPlan::Counted Hold(ThreadState* state, OperatorSlot& slot) {
  ++slot.holds;
  return {state, slot.last};
}

[[gnu::noinline]] HeldPlan::Counted FindOrMakePlan(Operator& op, anyop_value* frame) {
  if (op.newer.load(std::memory_order_acquire)) [[unlikely]] {
    return FindPlan(Latest(op), frame);
  }
  const DefaultFloatMode mode;  // planning evaluates floats, and calls functions of kernels
  OperatorSlot* slot = &SlotFor(op);
  const ScopeState scope = thread_state->scope;
  // One reading of the policy for key and plan: another thread may set it in between.
  const Policy& policy = *CurrentPolicy();
  const std::uint64_t word = std::uint32_t(ScopeWord(*thread_state)) | std::uint64_t(policy.number)
                                                                           << kPolicyShift;
  if (slot->last && SameKey(slot->last->key.data(), op, frame, word)) {
    return Hold(thread_state, *slot);
  }
  const KeyBuilder key(op, frame, word);
  const std::uint64_t hash = key.hash();
  Plan* plan = op.plans->Find(key, hash);
  if (!plan) {
    auto made = std::make_unique<Plan>();
    MakePlan(op, frame, scope, policy, made.get());
    made->hash = hash;
    made->key.assign(key.data(), key.data() + key.size());
    plan = op.plans->Insert(made.release());
  }
  // What takes part in planning may have called operators (a kernel's .accepts and .plan, the sink
  // of the log): the slots may have moved.
  slot = &thread_state->slots[op.index];
  KeepLast(*slot, plan);
  return Hold(thread_state, *slot);
}

inline bool Passes(const ScalarCheck& c, const anyop_value& v) {
  if (v.tag == ANYOP_FLOAT && c.op == NodeOp::kGe) return v.f >= c.f;  // the frequent one
  if (v.tag == ANYOP_NONE) return true;
  if (v.tag == ANYOP_FLOAT || c.is_float) {
    return Holds(c.op, v.tag == ANYOP_FLOAT ? v.f : double(v.i), c.f);
  }
  return Holds(c.op, v.i, c.i);
}

// MemoryIsSimple where one tensor is written and all are contiguous (Plan::only_written). Ranges
// meet if either begins within the other: one unsigned difference each, and no branch.
inline bool OneWriteIsSimple(const Plan& plan, const anyop_value* frame) {
  const TensorSlot& written = plan.slots[plan.only_written];
  const std::uintptr_t begin = AddressOf(*frame[written.index].t);
  const std::uintptr_t bytes = std::uintptr_t(written.bytes);
  std::uint64_t over = written.over;
  std::uintptr_t bad = 0;
  const TensorSlot* end = plan.slots + plan.n_slots;
  for (const TensorSlot* s = plan.slots; s != end; ++s, over >>= 1) {
    const std::uintptr_t at = AddressOf(*frame[s->index].t), distance = at - begin;
    const bool meets = (distance < bytes) | (0 - distance < std::uintptr_t(s->bytes));
    bad |= (at & s->align_mask) | (meets & !((distance == 0) & (over & 1)));
  }
  return !bad;
}

// Whether the call's memory is beyond doubt: no written range meets another, all is aligned. False
// refuses nothing: RunSlow looks closer and has the words.
inline bool MemoryIsSimple(const Plan& plan, const anyop_value* frame) {
  Extent ranges[kMaxParams + kMaxResults];
  std::uintptr_t misaligned = 0;
  const int n = plan.n_slots;
  for (int i = 0; i < n; ++i) {
    const TensorSlot& s = plan.slots[i];
    const anyop_value& v = frame[s.index];
    if (v.tag != ANYOP_TENSOR) [[unlikely]] {  // a result that the caller declined
      ranges[i] = {0, 0};
      continue;
    }
    const std::uintptr_t at = AddressOf(*v.t);
    misaligned |= at & s.align_mask;
    if (s.is_contiguous) {
      ranges[i] = {at, at + std::uintptr_t(s.bytes)};
    } else {
      ranges[i] = ExtentOf(*v.t);
      if (s.is_written) return false;  // it may meet itself
    }
  }
  bool meets = false;
  for (std::uint64_t left = plan.written_slots; left; left &= left - 1) {
    const int w = std::countr_zero(left);
    const Extent mine = ranges[w];
    for (int i = 0; i < n; ++i) {
      const bool is_over = plan.slots[w].over >> i & 1 && mine.begin == ranges[i].begin;
      meets |= !is_over & Meet(mine, ranges[i]);
    }
  }
  return !(misaligned | std::uintptr_t(meets));
}

[[gnu::noinline]] void RunInDefaultMode(Operator& op, Plan& plan, anyop_value* frame) {
  const DefaultFloatMode mode;
  RunPlan(op, plan, frame);
}

}  // namespace

HeldPlan::Counted FindPlan(Operator& op, anyop_value* frame) {
  FollowCarriedScope();
  ThreadState* state = thread_state;
  if (state && op.index < state->n_slots) [[likely]] {
    OperatorSlot& slot = state->slots[op.index];
    if (slot.last && SameKey(slot.last->key.data(), op, frame, ScopeWord(*state))) [[likely]] {
      return Hold(state, slot);
    }
  }
  return FindOrMakePlan(op, frame);
}

HeldPlan::Counted FindPlanOn(DLDevice device, Operator& op, anyop_value* frame,
                             std::uint64_t wanted) {
  const HeldPlan::Counted first = FindPlan(op, frame);
  if (PlaceOf(device) == PlaceOf(first.plan->device)) return first;
  const HeldPlan plan(first);
  DLTensor there[kMaxResults];
  std::uint64_t given = 0;
  for (int r = 0; r < op.n_results; ++r) {
    anyop_value& v = frame[op.n_params + r];
    if (!(wanted >> r & 1) || v.tag != ANYOP_NONE) continue;
    const ResultShape& shape = plan->results[r];
    FillTensor(&there[r], nullptr, device, ToDL(shape.dtype), shape.rank, shape.shape);
    v = TensorValue(&there[r]);
    given |= std::uint64_t(1) << r;
  }
  const HeldPlan::Counted found = FindPlan(op, frame);
  for (int r = 0; r < op.n_results; ++r) {
    if (given >> r & 1) frame[op.n_params + r] = {};
  }
  return found;
}

void RunPlan(Operator& op, Plan& plan, anyop_value* frame) {
  if (!IsDefaultFloatMode()) [[unlikely]]
    return RunInDefaultMode(op, plan, frame);
  for (int i = 0; i < plan.n_scalar_checks; ++i) {
    const ScalarCheck& c = plan.scalar_checks[i];
    if (!Passes(c, frame[c.param])) [[unlikely]] {
      FailScalars(op, plan, frame);
    }
  }
  const bool is_simple =
      plan.only_written >= 0 ? OneWriteIsSimple(plan, frame) : MemoryIsSimple(plan, frame);
  if (plan.is_direct && is_simple) [[likely]] {
    return RunKernelIn(nullptr, plan, frame, CountersOf(op, plan));
  }
  if (plan.needs_slow_run || !is_simple) return RunSlow(op, plan, frame, nullptr, is_simple);
  if (!plan.is_empty) RunKernel(op, plan, frame);
}

}  // namespace anyop
