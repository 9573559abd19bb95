// SPDX-License-Identifier: Apache-2.0
#include "platform/crash.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

namespace anyop {
namespace {

// The handler reads nothing but these notes: it may take no lock and allocate nothing, so that it
// may not touch thread-local storage either, which may have to be made.
struct Note {
  std::atomic<int> thread{0};  // 0: free; -1: taken, its text is being written
  std::atomic<std::uint64_t> order{0};
  char text[1000];  // the last byte is always 0, so that a reader stops even while it is written
};
constinit Note g_notes[256];
constinit std::atomic<std::uint64_t> g_order{0};
constinit std::atomic<TouchHandler> g_touch{nullptr};

constexpr std::pair<int, const char*> kSignals[] = {{SIGSEGV, "SIGSEGV"},
                                                    {SIGBUS, "SIGBUS"},
                                                    {SIGFPE, "SIGFPE"},
                                                    {SIGILL, "SIGILL"},
                                                    {SIGABRT, "SIGABRT"}};
struct Behind {
  struct sigaction action;
  // True once `action` got the signal. If it comes back, `action` did not end the process, and the
  // system's default action will.
  bool was_given;
};
Behind g_behind[std::size(kSignals)];

int ThreadId() { return int(syscall(SYS_gettid)); }

// By write alone: stdio may hold a lock or allocate, which a signal handler must not.
void Say(const char* text) {
  for (std::size_t left = std::strlen(text); left > 0;) {
    const ssize_t n = write(STDERR_FILENO, text, left);
    if (n <= 0) return;
    text += n, left -= std::size_t(n);
  }
}

void SayNote(const char* what, const Note& note) {
  Say(what);
  Say(note.text);
  Say("\n");
}

// The innermost note of this thread, which is the one made last. A pool's worker has no note: it
// works on one of the calls that are noted, so all of these are told.
void SayNotes(const char* signal) {
  const int thread = ThreadId();
  const Note* mine = nullptr;
  for (const Note& n : g_notes) {
    if (n.thread.load() == thread && (!mine || n.order.load() > mine->order.load())) mine = &n;
  }
  const bool any = std::any_of(std::begin(g_notes), std::end(g_notes),
                               [](const Note& n) { return n.thread.load() != 0; });
  if (!any) return;
  Say("anyop: ");
  Say(signal);
  if (mine) return SayNote(" in ", *mine);
  Say(" in a thread that has no call of its own, while these calls ran:\n");
  for (const Note& n : g_notes) {
    if (n.thread.load()) SayNote("  ", n);
  }
}

void Handle(int number, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const TouchHandler touch = g_touch.load();
  const bool is_address = number == SIGSEGV || number == SIGBUS;
  if (is_address && touch && touch(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    errno = saved_errno;
    return;  // the instruction is run again
  }
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    if (kSignals[i].first != number) continue;
    Behind& behind = g_behind[i];
    if (!behind.was_given) SayNotes(kSignals[i].second);
    struct sigaction next = behind.action;
    if (std::exchange(behind.was_given, true)) {
      next = {};
      next.sa_handler = SIG_DFL;
    }
    sigaction(number, &next, nullptr);
    // The next handler runs once this one has returned: an instruction that faulted faults again,
    // and a signal that a process sent (si_code <= 0: kill, abort) is sent again.
    if (info->si_code <= 0) syscall(SYS_tgkill, getpid(), ThreadId(), number);
  }
  errno = saved_errno;
}

}  // namespace

CrashNote::CrashNote(const std::string& text) : slot_(-1) {
  const int thread = ThreadId();
  for (std::size_t i = 0; i < std::size(g_notes); ++i) {
    Note& note = g_notes[i];
    int free = 0;
    if (note.thread.load() || !note.thread.compare_exchange_strong(free, -1)) continue;
    const std::size_t n = std::min(text.size(), sizeof note.text - 1);
    std::memcpy(note.text, text.data(), n);
    note.text[n] = 0;
    note.order = ++g_order;
    note.thread = thread;  // last: from here on the handler takes the note for this thread's
    slot_ = int(i);
    return;
  }
}

CrashNote::~CrashNote() {
  if (slot_ >= 0) g_notes[slot_].thread = 0;
}

void WatchCrashes() {
  static auto& mutex = *new std::mutex;  // never destroyed: late destructors make calls, too
  const std::lock_guard lock(mutex);
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction now;
    if (sigaction(kSignals[i].first, nullptr, &now)) continue;
    if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == &Handle) continue;
    g_behind[i] = {now, false};
    struct sigaction ours {};
    ours.sa_sigaction = &Handle;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;  // the fault may be that the thread's stack is full
    sigemptyset(&ours.sa_mask);
    sigaction(kSignals[i].first, &ours, nullptr);
  }
}

void SetTouchHandler(TouchHandler handler) { g_touch = handler; }

}  // namespace anyop
