// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

#include <unistd.h>

#include "settings.h"

namespace virtual_device {
namespace {

std::string Number(void* handle, std::uintptr_t first) {
  return std::to_string(reinterpret_cast<std::uintptr_t>(handle) - first);
}

// By one call: lines of several threads do not mix.
void Print(const std::string& line) {
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // there is nobody to tell
}

}  // namespace

std::string NameOf(int device) { return std::string(kWord) + ":" + std::to_string(device); }

bool IsTraced() { return TheSettings().is_traced; }

std::string NameOfStream(anyop_stream stream) { return "stream " + Number(stream, kFirstStream); }
std::string NameOfEvent(anyop_event event) { return "event " + Number(event, kFirstEvent); }

void Trace(int device, anyop_stream stream, const std::string& what) {
  Print(NameOf(device) + " " + NameOfStream(stream) + ": " + what + "\n");
}

void TraceWait(int device, const std::string& what) {
  Print(NameOf(device) + ": the host waits for " + what + "\n");
}

}  // namespace virtual_device
