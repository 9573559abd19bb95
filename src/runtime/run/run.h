// SPDX-License-Identifier: Apache-2.0
// The parts of a call after its plan.
#pragma once
#include <span>

#include "platform/arena.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/services.h"
#include "runtime/plan/thread_state.h"

namespace anyop {

inline constexpr int kMaxFrame = kMaxParams + kMaxResults;

using KernelRunner = void (*)(const Operator& op, const Plan& plan, const anyop_value* frame);

// Runs any call: with copies, index checks, the operator's check, lists, compositions, on devices.
// watched: how an observer calls the kernel, in check mode after the operator's check of data;
// null: nobody observes. is_simple: the caller has found that all tensors outside of lists are
// aligned and that none of them meets a written one, so that they are not looked at again.
void RunSlow(Operator& op, Plan& plan, anyop_value* frame, KernelRunner watched = nullptr,
             bool is_simple = false);

// What a call checks of its data before anything is written: indices, then the operator's check,
// which may follow them.
void CheckIndices(const Operator& op, const Plan& plan, std::span<const IndexCheck> checks,
                  const anyop_value* frame);
void CallCheck(const Operator& op, const Plan& plan, const anyop_value* frame, anyop_run check);

// Throws for a call whose arguments or results would be copied in strict mode: names the first.
[[noreturn]] void RefuseCopies(const Operator& op, const Plan& plan, const anyop_value* frame);

// Throws for the condition on a number that does not hold.
[[noreturn]] void FailScalars(const Operator& op, const Plan& plan, const anyop_value* frame);

// Executes .means.
void RunComposition(Operator& op, const Plan& plan, const anyop_value* frame);

inline KernelCounters& CountersOf(const Operator& op, const Plan& plan) {
  ThreadState* state = thread_state;
  if (state && op.index < state->n_slots && state->slots[op.index].counters) [[likely]] {
    return state->slots[op.index].counters[plan.counters];
  }
  return SlotFor(op).counters[plan.counters];
}

// The same for calls on the host and on devices, which are counted apart.
inline KernelCounters& CountersOfCall(const Operator& op, const Plan& plan) {
  return plan.device_kind ? DeviceCountersOf(op, plan) : CountersOf(op, plan);
}

// Runs the kernel as the plan says; workspace: of plan.workspace_bytes. `counters`: where the call
// is counted.
inline void RunKernelIn(void* workspace, const Plan& plan, const anyop_value* frame,
                        KernelCounters& counters) {
  counters.calls.Add();
  RunState state(plan);
  anyop_context context = plan.context;
  context.workspace = workspace;
  context.runtime = &state;
  if (const int code = plan.run(&context, frame)) [[unlikely]] {
    FailKernel(plan, code, state);
  }
}

inline void RunKernel(const Operator& op, const Plan& plan, const anyop_value* frame) {
  if (!plan.workspace_bytes) return RunKernelIn(nullptr, plan, frame, CountersOf(op, plan));
  const Workspace workspace(plan.workspace_bytes);
  RunKernelIn(workspace.data(), plan, frame, CountersOf(op, plan));
}

}  // namespace anyop
