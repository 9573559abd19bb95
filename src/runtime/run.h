// SPDX-License-Identifier: Apache-2.0
// The parts of a call after its plan.
#pragma once
#include "platform/arena.h"
#include "runtime/host.h"
#include "runtime/plan.h"
#include "runtime/thread_state.h"

namespace anyop {

// With everything: copies, index checks, the operator's check, lists, compositions.
void RunSlow(Operator& op, Plan& plan, anyop_value* frame);

// Raises the condition on a number that does not hold.
[[noreturn]] void FailScalars(const Operator& op, const Plan& plan, const anyop_value* frame);

// Executes .means.
void RunComposition(Operator& op, const Plan& plan, const anyop_value* frame);

inline KernelCounters& CountersOf(const Operator& op, const Plan& plan) {
  const int k = plan.kernel >= 0 ? plan.kernel : int(op.kernels.size());
  ThreadState* state = thread_state;
  if (state && op.index < state->n_slots && state->slots[op.index].counters) [[likely]] {
    return state->slots[op.index].counters[k];
  }
  return SlotFor(op).counters[k];
}

inline void RunKernel(const Operator& op, const Plan& plan, const anyop_value* frame) {
  CountersOf(op, plan).calls.Add();
  CallState state;
  int code;
  if (plan.workspace_bytes) {
    const Workspace workspace(plan.workspace_bytes);
    const anyop_context context = MakeContext(plan, workspace.data(), &state);
    code = plan.run(&context, frame);
  } else {
    const anyop_context context = MakeContext(plan, nullptr, &state);
    code = plan.run(&context, frame);
  }
  if (code) [[unlikely]] {
    FailCall(op, code, state.error_text);
  }
}

}  // namespace anyop
