// SPDX-License-Identifier: Apache-2.0
// Faults of kernels: plain pointers are not intercepted, so they meet guard pages.
#pragma once
#include <csetjmp>
#include <csignal>
#include <ctime>

namespace anyop_ascend {

// Catches faults on this thread while it lives, and loops that make no call of an instruction.
class FaultCatcher {
 public:
  FaultCatcher();
  ~FaultCatcher();
  FaultCatcher(const FaultCatcher&) = delete;
  FaultCatcher& operator=(const FaultCatcher&) = delete;

 private:
  struct sigaction old_[6];
  timer_t timer_;
  stack_t old_stack_;
};
// Where a fault of the block that runs goes; faults outside blocks go to the handler before ours.
// One for the process, as launches with checks run one at a time: what is of a thread lies in a
// small room that the libraries of a process share.
extern sigjmp_buf fault_return;
extern thread_local volatile bool is_in_block;
// Reports the fault that fault_return was taken for.
void ReportFault();

}  // namespace anyop_ascend
