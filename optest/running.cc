// SPDX-License-Identifier: Apache-2.0
#include "optest/running.h"

#include <cxxabi.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>

namespace anyop::optest {
namespace {

// A handler may neither allocate nor lock: it reads texts of fixed size, which are written before.
template <std::size_t kBytes>
struct FixedText {
  char chars[kBytes];
  std::size_t size = 0;

  void Add(const char* text, std::size_t n) {
    n = std::min(n, kBytes - size);
    std::memcpy(chars + size, text, n);
    size += n;
  }
  void Add(const char* text) { Add(text, std::strlen(text)); }
  void Add(std::uint64_t number, unsigned base) {
    char digits[20];
    int n = 0;
    do {
      digits[n++] = "0123456789abcdef"[number % base];
    } while (number /= base);
    while (n > 0) Add(&digits[--n], 1);
  }
  template <std::size_t kOther>
  void Add(const FixedText<kOther>& text) {
    Add(text.chars, text.size);
  }
  void Set(std::string_view text) {
    size = 0;
    Add(text.data(), text.size());
  }
};

struct NotedMemory {
  std::uintptr_t begin, end;
  FixedText<160> text;
};
constinit FixedText<2048> g_call{};
constinit FixedText<8192> g_reports{};
constinit FixedText<160> g_who{};
constinit FixedText<512> g_thrown{};
constinit NotedMemory g_memories[64]{};
constinit std::size_t g_n_memories = 0;
constinit FixedText<16384> g_report{};

constexpr std::uintptr_t kNearNull = 65536, kNearStack = std::uintptr_t(64) << 20;
thread_local std::uintptr_t t_stack = 0;  // its lowest byte; 0: unknown
thread_local std::uintptr_t t_stack_bytes = 0;

// Which access faulted, where the processor tells.
const char* AccessOf([[maybe_unused]] const void* context) {
#ifdef __x86_64__
  constexpr long long kIsWrite = 2;
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  return registers[REG_ERR] & kIsWrite ? "writes" : "reads";
#else
  return "accesses";
#endif
}

bool IsPastStack(std::uintptr_t address) {
  return t_stack && address < t_stack + kNearNull && address + kNearStack > t_stack;
}

// How far the address is from the nearest memory of the call.
void AddNearest(std::uintptr_t address) {
  const NotedMemory* nearest = nullptr;
  std::uintptr_t least = UINTPTR_MAX;
  for (std::size_t i = 0; i < g_n_memories; ++i) {
    const NotedMemory& m = g_memories[i];
    const std::uintptr_t far = address < m.begin  ? m.begin - address
                               : address >= m.end ? address - m.end + 1
                                                  : 0;
    if (far >= least) continue;
    least = far;
    nearest = &m;
  }
  if (!nearest) return;
  g_report.Add(": byte ");
  g_report.Add(least, 10);
  g_report.Add(address < nearest->begin ? " before the beginning of " : " after the end of ");
  g_report.Add(nearest->text);
  g_report.Add(", which is the nearest memory of the call");
}

void AddAddress(std::uintptr_t address, const void* context) {
  if (IsPastStack(address)) {
    g_report.Add(" uses up its stack of ");
    g_report.Add(t_stack_bytes >> 10, 10);
    g_report.Add(
        " KiB. Arrays that large, or recursion that deep, need memory of the workspace: see "
        ".workspace.");
    return;
  }
  g_report.Add(" ");
  g_report.Add(AccessOf(context));
  if (address < kNearNull) {
    g_report.Add(" what a null pointer points to (address 0x");
    g_report.Add(address, 16);
    g_report.Add("). An argument that may be absent is null then, and a result that is declined.");
    return;
  }
  g_report.Add(" memory that it does not have, at address 0x");
  g_report.Add(address, 16);
  AddNearest(address);
  g_report.Add(". Its loops must stay within the tensors.");
}

void AddReason(int number, const siginfo_t& info, const void* context) {
  if (number == SIGSEGV && info.si_code == SI_KERNEL) {  // x86 does not tell the address
    g_report.Add(
        " uses an address that is not aligned as the instruction needs it, or that no memory can "
        "have. A tensor may begin at any element: its vectors are loaded and stored unaligned.");
  } else if (number == SIGSEGV || number == SIGBUS) {
    AddAddress(reinterpret_cast<std::uintptr_t>(info.si_addr), context);
  } else if (number == SIGFPE) {
    g_report.Add(info.si_code == FPE_INTDIV ? " divides an integer by zero (SIGFPE)."
                                            : " computes what the machine refuses (SIGFPE).");
  } else if (number == SIGILL) {
    g_report.Add(
        " runs an instruction that this machine lacks, or a trap of the compiler's "
        "(SIGILL).");
  } else if (g_thrown.size) {
    g_report.Add(" throws ");
    g_report.Add(g_thrown);
    g_report.Add(", which nothing catches.");
  } else {
    g_report.Add(" calls abort(), as an assertion does that does not hold.");
  }
}

void ReportCrash(int number, siginfo_t* info, void* context) {
  signal(number, SIG_DFL);
  g_report.Add(g_reports);
  g_report.Add("it ends the process: ");
  g_report.Add(g_who.size ? g_who.chars : "the call", g_who.size ? g_who.size : 8);
  AddReason(number, *info, context);
  g_report.Add("\n  ");
  g_report.Add(g_call);
  g_report.Add("\n");
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, g_report.chars, g_report.size);
  raise(number);
}

[[noreturn]] void NoteThrown() {
  std::string text = "something";
  if (const std::type_info* type = abi::__cxa_current_exception_type()) {
    int status = 0;
    char* const name = abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
    text = name ? name : type->name();
    std::free(name);
  }
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::exception& e) {
    text += std::string(" (") + e.what() + ")";
  } catch (...) {
  }
  g_thrown.Set(text);
  std::abort();
}

}  // namespace

void NoteCall(const std::string& text) { g_call.Set(text); }
void NoteReports(const std::string& text) { g_reports.Set(text); }

Running::Running(const std::string& who) : before_(g_who.chars, g_who.size) {
  g_who.Set(who);
  g_n_memories = 0;
}

Running::~Running() {
  g_who.Set(before_);
  g_n_memories = 0;
}

void NoteMemory(const void* begin, std::size_t bytes, std::string_view kind,
                std::string_view name) {
  if (g_n_memories == std::size(g_memories)) return;
  NotedMemory& memory = g_memories[g_n_memories++];
  memory.begin = reinterpret_cast<std::uintptr_t>(begin);
  memory.end = memory.begin + bytes;
  memory.text.Set(kind);
  memory.text.Add(name.data(), name.size());
}

void UseStackForSignals() {
  constexpr std::size_t kBytes = 65536;
  stack_t stack{};
  stack.ss_sp = new char[kBytes];  // threads of a test live as long as the process
  stack.ss_size = kBytes;
  sigaltstack(&stack, nullptr);
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes)) return;
  void* lowest = nullptr;
  std::size_t bytes = 0;
  if (pthread_attr_getstack(&attributes, &lowest, &bytes) == 0) {
    t_stack = reinterpret_cast<std::uintptr_t>(lowest);
    t_stack_bytes = bytes;
  }
  pthread_attr_destroy(&attributes);
}

void ReportCrashes() {
#ifndef __SANITIZE_ADDRESS__
  UseStackForSignals();
  std::set_terminate(&NoteThrown);
  for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction action {};
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    action.sa_sigaction = &ReportCrash;
    sigaction(s, &action, nullptr);
  }
#endif
}

}  // namespace anyop::optest
