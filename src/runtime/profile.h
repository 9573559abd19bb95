// SPDX-License-Identifier: Apache-2.0
// Times of the calls of a process, written when it ends to <ANYOP_PROFILE>/<process>.json, which
// `anyop profile` reads.
#pragma once
#include <cstdint>

#include "runtime/operator.h"

namespace anyop {

bool IsProfiling();

// Times one call for as long as it lives; one inside the other is a call of a composition, whose
// time is not the outer one's own.
class CallTimer {
 public:
  CallTimer(const Operator& op, const Plan& plan, const anyop_value* frame);
  ~CallTimer();
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

 private:
  friend class KernelTimer;

  CallTimer* outer_;
  const Operator& op_;
  const Plan& plan_;
  int row_;
  std::uint64_t copies_;
  std::int64_t start_ns_, kernel_ns_ = 0, inner_ns_ = 0;
};

// The kernel of the innermost call that is timed on this thread; nothing where none is.
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
