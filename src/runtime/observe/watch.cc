// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/watch.h"

#include <atomic>
#include <exception>

#include "anyop/stream.h"
#include "platform/clock.h"
#include "platform/crash.h"
#include "platform/env.h"
#include "platform/float_mode.h"
#include "platform/log.h"
#include "runtime/observe/check_mode.h"
#include "runtime/observe/profile.h"
#include "runtime/observe/record.h"
#include "runtime/plan/frame.h"
#include "runtime/run/call.h"
#include "runtime/run/run.h"

namespace anyop {
namespace {

std::atomic<int> g_is_checking{-1};  // -1: not yet known; 2: deeply

int ReadChecking() {
  int is_checking = g_is_checking.load(std::memory_order_relaxed);
  if (is_checking < 0) {
    const std::string given = Environment("ANYOP_CHECK");
    is_checking = given == "deep" ? 2 : given == "1";
    g_is_checking.store(is_checking, std::memory_order_relaxed);
  }
  return is_checking;
}

bool IsObserving() {
  static const bool is_observing = EnvironmentFlag("ANYOP_CRASH") || IsRecording() || IsProfiling();
  return is_observing || IsChecking();
}

void RunKernelWatched(const Operator& op, const Plan& plan, const anyop_value* frame) {
  const KernelTimer timer;
  (IsChecking() ? RunKernelChecked : RunKernel)(op, plan, frame);
}

// "kernel cpu_avx2 of my_ops.scale(x: f32[2, 8], factor: 2.0)"
std::string Doing(const Operator& op, const Plan& plan, const anyop_value* frame) {
  const std::string kernel =
      plan.kernel < 0 ? "the composition" : "kernel " + std::string(KernelName(plan));
  return kernel + " of " + ShowCall(op, frame);
}

void LeaveOutOfRecording(const Plan& plan) {
  static std::atomic<bool> is_told{false};
  if (is_told.exchange(true)) return;
  Log(2, ("calls on " + Device(plan.device).name() +
          " are not recorded: a file of a call holds memory of the host.")
             .c_str());
}

}  // namespace

bool IsChecking() { return ReadChecking() > 0; }
bool IsCheckingDeeply() { return ReadChecking() == 2; }

Entry CurrentEntry() { return IsObserving() ? &RunWatched : &RunPlan; }

void SetChecking(bool on, bool deeply) {
  g_is_checking.store(on + (on && deeply), std::memory_order_relaxed);
  for (Operator* op : Operators()) op->entry.store(CurrentEntry(), std::memory_order_relaxed);
}

void RunWatched(Operator& op, Plan& plan, anyop_value* frame) {
  const std::int64_t entered_ns = NowNs();
  const DefaultFloatMode mode;
  // As RunPlan does, in whose place this stands: RunSlow begins behind these checks.
  std::string error;
  if (!CheckScalars(*op.contract, plan.form, frame, &error)) {
    Fail(ANYOP_INVALID_ARGUMENT, op.Message(error));
  }
  WatchCrashes();
  const CrashNote note(Doing(op, plan, frame));
  if (IsRecording()) plan.device_kind ? LeaveOutOfRecording(plan) : Record(op, plan, frame);
  if (!IsProfiling()) return RunSlow(op, plan, frame, &RunKernelWatched);
  const CallTimer timer(op, plan, frame, entered_ns);
  RunSlow(op, plan, frame, &RunKernelWatched);
}

}  // namespace anyop
