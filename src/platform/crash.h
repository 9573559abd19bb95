// SPDX-License-Identifier: Apache-2.0
// Signals that end a process (a wild address, an illegal instruction, abort): what the threads were
// doing is written to standard error before the process ends as it would have.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace anyop {

// Notes what this thread does for as long as the object lives. Of notes within one another, the
// innermost is told. Costs a copy of the text, because the handler may only read memory that is
// there already.
class CrashNote {
 public:
  explicit CrashNote(const std::string& text);
  ~CrashNote();
  CrashNote(const CrashNote&) = delete;
  CrashNote& operator=(const CrashNote&) = delete;

 private:
  int slot_;  // -1: all are taken, and nothing is noted
};

// Takes an address that was touched and must not be; true if it made the access possible.
using TouchHandler = bool (*)(std::uintptr_t address);

// Puts our handler in front of the one that is there, which runs after it. Cheap once ours is in
// front. A handler that is installed later (Python's faulthandler) is put behind ours by the next
// call of this function.
void WatchCrashes();
void SetTouchHandler(TouchHandler handler);

}  // namespace anyop
