// SPDX-License-Identifier: Apache-2.0
#include "faults.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "global.h"

namespace anyop_ascend {

sigjmp_buf fault_return;
thread_local volatile bool is_in_block = false;

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGVTALRM, SIGABRT, SIGILL};
constexpr int kNumberOfSignals = sizeof kSignals / sizeof *kSignals;
constexpr int kTicks = 3;  // seconds of the processor without a call of an instruction
constexpr std::size_t kSignalStackBytes = 64 * 1024;
void* volatile fault_address = nullptr;
volatile int fault_signal = 0;
volatile std::uint64_t seen_steps = 0;
volatile int idle_ticks = 0;

// Whether the block has gone on since the last ticks.
bool IsGoingOn() {
  const std::uint64_t steps = static_cast<CheckedBlock*>(block)->steps;
  idle_ticks = steps == seen_steps ? idle_ticks + 1 : 0;
  seen_steps = steps;
  return idle_ticks < kTicks;
}

void OnFault(int number, siginfo_t* info, void*) {
  if (number == SIGVTALRM && (!is_in_block || !block || IsGoingOn())) return;
  if (!is_in_block) {
    signal(number, SIG_DFL);  // returns to the faulting instruction
    return;
  }
  fault_address = info->si_addr;
  fault_signal = number;
  siglongjmp(fault_return, 1);
}

std::string After(const CheckedBlock& b) {
  return b.place ? " after " + Shown(b.place) : std::string();
}

// The process ends, and its findings with it: all that is left is to say where.
void OnExit() {
  if (!is_in_block || !block) return;
  const CheckedBlock& b = Current();
  std::fprintf(stderr, "crash: the kernel calls exit()%s, in block %u\n", After(b).c_str(),
               b.index);
}

}  // namespace

FaultCatcher::FaultCatcher() {
  static void* stack = MapZeros(kSignalStackBytes);
  stack_t own{};
  own.ss_sp = stack;
  own.ss_size = kSignalStackBytes;
  sigaltstack(&own, &old_stack_);
  struct sigaction action {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  for (int i = 0; i < kNumberOfSignals; ++i) sigaction(kSignals[i], &action, &old_[i]);
  static const int is_watched = std::atexit(OnExit);
  (void)is_watched;
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGVTALRM;
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_)) return;
  const itimerspec every{{1, 0}, {1, 0}};
  timer_settime(timer_, 0, &every, nullptr);
}
FaultCatcher::~FaultCatcher() {
  timer_delete(timer_);
  for (int i = 0; i < kNumberOfSignals; ++i) sigaction(kSignals[i], &old_[i], nullptr);
  sigaltstack(&old_stack_, nullptr);
}

void ReportFault() {
  CheckedBlock& b = Current();
  const auto* at = static_cast<const unsigned char*>(fault_address);
  const Site place = SiteOf(b.place);
  const std::string after = After(b);
  if (fault_signal == SIGVTALRM) {
    Report("endless", place, "the block loops for %d seconds without an instruction%s", kTicks,
           after.c_str());
  } else if (fault_signal == SIGABRT) {
    Report("crash", place,
           "abort() is called%s: by the kernel itself, by assert(), or because an exception cannot "
           "leave a function",
           after.c_str());
  } else if (fault_signal == SIGILL) {
    Report("crash", place,
           "an instruction that no processor has is met%s, such as __builtin_trap()",
           after.c_str());
  } else if (fault_signal == SIGFPE) {
    Report("fault", place, "an integer is divided by zero%s", after.c_str());
  } else if (at < b.stack && at + 65536 >= b.stack) {
    Report("fault", place, "the stack overflows%s: a block has %llu KiB", after.c_str(),
           static_cast<unsigned long long>(kStackBytes / 1024));
  } else if (const Extent* extent = FindExtent(at)) {
    Report("gm-out-of-bounds", place,
           "a plain pointer goes to byte %lld of '%s', which has %llu, somewhere%s",
           static_cast<long long>(at - extent->data), extent->name.c_str(),
           static_cast<unsigned long long>(extent->bytes), after.c_str());
  } else {
    Report("fault", place, "a plain pointer goes to address %p, which is no argument%s", at,
           after.c_str());
  }
}

}  // namespace anyop_ascend
