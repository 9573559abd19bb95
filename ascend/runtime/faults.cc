// SPDX-License-Identifier: Apache-2.0
#include "faults.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

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
volatile std::uintptr_t fault_code = 0;  // of the instruction in the kernel's library; 0: not known
volatile bool is_searching = false;      // for that instruction
volatile std::uint64_t seen_steps = 0;
volatile int idle_ticks = 0;

// Whether the block has gone on since the last ticks.
bool IsGoingOn() {
  const std::uint64_t steps = static_cast<CheckedBlock*>(block)->steps;
  idle_ticks = steps == seen_steps ? idle_ticks + 1 : 0;
  seen_steps = steps;
  return idle_ticks < kTicks;
}

// The innermost call that lies in the library of the kernel.
struct Search {
  const void* library;
  std::uintptr_t found;
};
const void* LibraryOf(std::uintptr_t code) {
  Dl_info info;
  return dladdr(reinterpret_cast<const void*>(code), &info) ? info.dli_fbase : nullptr;
}
_Unwind_Reason_Code Visit(_Unwind_Context* frame, void* argument) {
  auto& search = *static_cast<Search*>(argument);
  int is_exact = 0;  // else the address is that behind a call
  const std::uintptr_t code = _Unwind_GetIPInfo(frame, &is_exact);
  const std::uintptr_t of_call = is_exact ? code : code - 1;
  if (LibraryOf(of_call) != search.library) return _URC_NO_REASON;
  search.found = of_call;
  return _URC_END_OF_STACK;
}
std::uintptr_t CodeOfKernel() {
  Search search{LibraryOf(reinterpret_cast<std::uintptr_t>(launched->of.body)), 0};
  if (search.library) _Unwind_Backtrace(&Visit, &search);
  return search.found;
}
std::string NameOfCode(std::uintptr_t code) {
  Dl_info info;
  if (!code || !dladdr(reinterpret_cast<const void*>(code), &info)) return "";
  return Format(
      "%s+%#llx", info.dli_fname,
      static_cast<unsigned long long>(code) - reinterpret_cast<std::uintptr_t>(info.dli_fbase));
}

void OnFault(int number, siginfo_t* info, void*) {
  if (number == SIGVTALRM && (!is_in_block || !block || IsGoingOn())) return;
  if (!is_in_block) {
    signal(number, SIG_DFL);  // returns to the faulting instruction
    return;
  }
  // A call of what is no code has a frame that cannot be read: a fault within the search.
  const bool is_first = !is_searching;
  if (is_first) {
    fault_address = info->si_addr;
    fault_signal = number;
    fault_code = 0;
    is_searching = true;
    fault_code = CodeOfKernel();
  }
  is_searching = false;
  siglongjmp(fault_return, 1);
}

std::string After(const CheckedBlock& b) {
  return b.place ? " after " + Shown(b.place) : std::string();
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

namespace {

struct Said {
  const char* kind;
  std::string text;
};

Said OfAddress(const CheckedBlock& b, const std::string& after) {
  const auto* at = static_cast<const unsigned char*>(fault_address);
  if (at < b.stack && at + kStackGuardBytes >= b.stack) {
    return {"stack-overflow",
            Format("the stack of block %u overflows%s: a block has %llu KiB, of which arrays and "
                   "calls within calls are made. Try TBuf for arrays",
                   b.index, after.c_str(), static_cast<unsigned long long>(kStackBytes / 1024))};
  }
  if (const Extent* extent = FindExtent(at)) {
    return {"gm-out-of-bounds",
            Format("a plain pointer goes to byte %lld of '%s', which has %llu, somewhere%s",
                   static_cast<long long>(at - extent->data), extent->name.c_str(),
                   static_cast<unsigned long long>(extent->bytes), after.c_str())};
  }
  return {"fault", Format("a plain pointer goes to address %p, which is no argument%s",
                          static_cast<const void*>(at), after.c_str())};
}

Said OfSignal(const CheckedBlock& b) {
  const std::string after = After(b);
  switch (fault_signal) {
    case SIGVTALRM:
      return {"endless", Format("the block loops for %d seconds without an instruction%s", kTicks,
                                after.c_str())};
    case SIGABRT:
      return {"crash", Format("abort() is called%s: by the kernel itself, by assert(), or because "
                              "an exception cannot leave a function",
                              after.c_str())};
    case SIGILL:
      return {"crash", Format("an instruction that no processor has is met%s, such as "
                              "__builtin_trap()",
                              after.c_str())};
    case SIGFPE:
      return {"fault", Format("an integer is divided by zero%s", after.c_str())};
    default:
      return OfAddress(b, after);
  }
}

}  // namespace

void ReportFault() {
  const CheckedBlock& b = Current();
  Said said = OfSignal(b);
  if (!IsNew(said.kind, b.place, 0)) return;
  AddFinding({.kind = said.kind,
              .here = b.place,
              .block = static_cast<int>(b.index),
              .text = std::move(said.text),
              .insert = "",
              .code = NameOfCode(fault_code)});
}

}  // namespace anyop_ascend

// What functions that end the process are to kernels (process.h). `code`: where one is called.
namespace {

void EndBlock(const char* function, const void* code) {
  using namespace anyop_ascend;
  if (!block) return;
  const std::uint32_t place = is_in_block ? Current().place : 0;  // known with checks alone
  if (IsNew("crash", place, 0)) {
    AddFinding({.kind = "crash",
                .here = place,
                .block = static_cast<int>(block->index),
                .text = Format("the kernel calls %s()%s, in block %u. A device has no process to "
                               "end: try return",
                               function, place ? After(Current()).c_str() : "", block->index),
                .insert = "",
                .code = NameOfCode(reinterpret_cast<std::uintptr_t>(code) - 1)});
  }
  std::longjmp(*block_end, 1);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

[[noreturn]] void anyop_ascend_exit(int status) {
  EndBlock("exit", __builtin_return_address(0));
  std::exit(status);
}
[[noreturn]] void anyop_ascend_exit_now(int status) {
  EndBlock("_exit", __builtin_return_address(0));
  std::_Exit(status);
}
[[noreturn]] void anyop_ascend_quick_exit(int status) {
  EndBlock("quick_exit", __builtin_return_address(0));
  std::quick_exit(status);
}
[[noreturn]] void anyop_ascend_abort() {
  EndBlock("abort", __builtin_return_address(0));
  std::abort();
}

}  // extern "C"
#pragma GCC visibility pop
