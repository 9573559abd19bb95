// SPDX-License-Identifier: Apache-2.0
#include "optest/interrupt.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <exception>

#include "optest/worker.h"
#include "platform/guarded_memory.h"

namespace anyop::optest {
namespace {

constexpr int kPatienceMs = 100;  // a part of a test takes much less

struct Interruption {
  Pages pages;
  int left;  // accesses until `first` stops
  Worker* other;
  bool has_begun = false, is_done = false;  // the other part
  struct sigaction fault {};
  struct sigaction trap {};

  void Forbid() const { mprotect(pages.begin, pages.bytes, PROT_NONE); }
  void Allow() const { mprotect(pages.begin, pages.bytes, PROT_READ | PROT_WRITE); }
  void RunOther() {
    has_begun = true;
    other->Go();
    is_done = other->AwaitFor(kPatienceMs);
  }
};
Interruption* g_interruption = nullptr;

#ifdef __x86_64__
constexpr long long kTrapFlag = 0x100;

void OnStep(int, siginfo_t*, void* context) {
  Interruption& now = *g_interruption;
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
  if (--now.left > 0) return now.Forbid();
  now.RunOther();
}
#endif

void OnFault(int, siginfo_t* info, void* context) {
  Interruption& now = *g_interruption;
  const auto* at = static_cast<const unsigned char*>(info->si_addr);
  if (at < now.pages.begin || at >= now.pages.begin + now.pages.bytes) {
    if (OpenGuard(reinterpret_cast<std::uintptr_t>(at))) return;
    sigaction(SIGSEGV, &now.fault, nullptr);  // the access faults again
    return;
  }
  now.Allow();
#ifdef __x86_64__
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] |= kTrapFlag;
#else
  (void)context;
  now.RunOther();
#endif
}

void Handle(int signal_number, void (*handler)(int, siginfo_t*, void*), struct sigaction* before) {
  struct sigaction action {};
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  action.sa_sigaction = handler;
  sigaction(signal_number, &action, before);
}

}  // namespace

bool RunInterrupted(const Pages& pages, int access, const std::function<void()>& first,
                    const std::function<void()>& second) {
  Interruption now{pages, access, &Worker::Number(0)};
  now.other->Give(second);
  g_interruption = &now;
  Handle(SIGSEGV, &OnFault, &now.fault);
#ifdef __x86_64__
  Handle(SIGTRAP, &OnStep, &now.trap);
#endif
  if (pages.bytes) now.Forbid();
  std::exception_ptr error;
  try {
    first();
  } catch (...) {
    error = std::current_exception();
  }
  if (pages.bytes) now.Allow();
  sigaction(SIGSEGV, &now.fault, nullptr);
#ifdef __x86_64__
  sigaction(SIGTRAP, &now.trap, nullptr);
#endif
  const bool has_waited = now.has_begun && !now.is_done;
  if (!now.has_begun) now.other->Go();
  if (!now.is_done) now.other->Await();
  if (error) std::rethrow_exception(error);
  now.other->Rethrow();
  return !has_waited;
}

}  // namespace anyop::optest
