// SPDX-License-Identifier: Apache-2.0
// Times of the calls of a process, written when it ends to <ANYOP_PROFILE>/<process>.json, which
// `anyop profile` reads.
#pragma once
#include <cstdint>

#include "runtime/registry/operator.h"

namespace anyop {

bool IsProfiling();

// Times a call from a host's language for as long as it lives. The time before and after the first
// call of an operator inside of it, in which arguments and results are converted, is host time of
// that operator: for small calls it is most of what a caller waits for.
class HostTimer {
 public:
  HostTimer();
  ~HostTimer();
  HostTimer(const HostTimer&) = delete;
  HostTimer& operator=(const HostTimer&) = delete;

 private:
  friend class CallTimer;

  HostTimer* outer_;
  int row_ = -1;  // of the call, once it is there
  std::int64_t start_ns_, before_ns_ = 0, left_ns_ = 0;
};

// Times one call for as long as it lives. A timer inside of another one is for a call that the
// outer call makes, of a composition for instance: its time is not the outer one's own.
class CallTimer {
 public:
  // entered_ns: of platform/clock.h, when the runtime was called, before it did anything for the
  // profile.
  CallTimer(const Operator& op, const Plan& plan, const anyop_value* frame,
            std::int64_t entered_ns);
  ~CallTimer();
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

 private:
  friend class HostTimer;
  friend class KernelTimer;

  // Takes the time of a call inside of this one, which has a row of its own, out of this one's.
  void AddInner(std::int64_t ns);

  CallTimer* outer_;
  HostTimer* host_ = nullptr;  // of which this is the call
  const Operator& op_;
  const Plan& plan_;
  int row_;
  std::uint64_t copies_;
  bool is_in_kernel_ = false;
  std::int64_t start_ns_, kernel_ns_ = 0, inner_ns_ = 0;
};

// Times the kernel of the innermost call that is timed on this thread; nothing where none is.
class KernelTimer {
 public:
  KernelTimer();
  ~KernelTimer();
  KernelTimer(const KernelTimer&) = delete;
  KernelTimer& operator=(const KernelTimer&) = delete;

 private:
  std::int64_t start_ns_ = 0;
};

}  // namespace anyop
