// SPDX-License-Identifier: Apache-2.0
#include "fault.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "device.h"
#include "settings.h"

namespace virtual_device {
namespace {

const Machine* g_machine = nullptr;
struct sigaction g_behind_segv, g_behind_bus;

// A line without allocating, locking or what printf may do.
class Line {
 public:
  Line& operator<<(const char* text) {
    while (*text && size_ < sizeof text_) text_[size_++] = *text++;
    return *this;
  }
  Line& operator<<(std::int64_t hex) {
    char digits[20];
    int n = 0;
    do {
      digits[n++] = "0123456789abcdef"[hex % 16];
    } while ((hex /= 16) > 0);
    while (n > 0 && size_ < sizeof text_) text_[size_++] = digits[--n];
    return *this;
  }
  void Write() const {
    if (write(STDERR_FILENO, text_, size_) < 0) return;  // there is nobody to tell
  }

 private:
  char text_[200];
  std::size_t size_ = 0;
};

void Name(const void* address) {
  for (const Device* device : g_machine->devices) {
    const std::int64_t seen = device->memory.OffsetSeen(address);
    const std::int64_t opened = device->memory.OffsetOpened(address);
    if (seen < 0 && opened < 0) continue;
    // A forked child has no such threads, but may give a new one the number of one of them.
    const bool is_stream = !IsForked() && IsStreamThread();
    const char* who = opened >= 0 ? "a kernel touched memory that is not allocated"
                      : is_stream ? "a kernel used an address that its launch does not list,"
                                  : "the host touched device memory";
    (Line() << kWord << ":" << device->number << ": " << who << " at offset 0x"
            << (opened >= 0 ? opened : seen) << "\n")
        .Write();
  }
}

void Handle(int number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  Name(info->si_addr);
  errno = saved_errno;
  struct sigaction& behind = number == SIGBUS ? g_behind_bus : g_behind_segv;
  if (behind.sa_flags & SA_SIGINFO) return behind.sa_sigaction(number, info, context);
  if (behind.sa_handler != SIG_DFL && behind.sa_handler != SIG_IGN) {
    return behind.sa_handler(number);
  }
  // The instruction faults again, and the system ends the process; a signal that was sent is sent
  // again.
  struct sigaction system {};
  sigaction(number, &system, nullptr);
  if (info->si_code <= 0) raise(number);
}

}  // namespace

void NameFaults(const Machine* machine) {
  g_machine = machine;
  struct sigaction action {};
  action.sa_sigaction = &Handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &g_behind_segv);
  sigaction(SIGBUS, &action, &g_behind_bus);
}

}  // namespace virtual_device
